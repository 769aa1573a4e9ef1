"""Objects of a whole bucket by their address: inputs, exports and what workers share."""

from __future__ import annotations

from typing import IO

import obstore
from obstore.exceptions import BaseError

from omnigraph.environment import variables
from omnigraph.store.files.object_files import MISSING, ObjectFiles, entry_of, object_failure
from omnigraph.store.files.protocol import Entry
from omnigraph.store.files.storage_options import given_for, storage_options


class Bucket(ObjectFiles):
    """Reads and writes objects piece by piece."""

    @classmethod
    def of(cls, name: str) -> Bucket:
        """Return the bucket an address lies in, reached as `reaching` or the environment says."""
        scheme, _, place = name.partition("://")
        options = storage_options(scheme, given_for(scheme), variables())
        return cls(f"{scheme}://{place.partition('/')[0]}", options)

    def size_of(self, name: str) -> int | None:
        """Return the size of an object, None when it does not exist."""
        entry = self.look(name)
        return None if entry is None else entry.size_bytes

    def look(self, name: str) -> Entry | None:
        """Return what is known about an object, None when it does not exist."""
        try:
            return entry_of(name, obstore.head(self._store, self._key(name)))
        except MISSING:
            return None
        except BaseError as error:
            raise object_failure("look at", name, error) from error

    def upload(self, name: str, handle: IO[bytes]) -> None:
        """Put what an open file holds; large ones in parts."""
        try:
            obstore.put(self._store, self._key(name), handle)
        except BaseError as error:
            raise object_failure("write", name, error) from error
