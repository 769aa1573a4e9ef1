"""Folders that Lance makes by mistake.

Lance writes the file of a branch or tag to a temporary name first. If the path of the dataset holds
a character that object stores spell in another way, that name lies beside the path, below folders
with the other spelling, which stay behind empty.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from omnigraph.errors import StorageError, StorageFailureKind

if TYPE_CHECKING:
    from lance import LanceDataset

_PLAIN = " !$&'()+,/:;=@-._"
"""Beside letters and digits, what an object store takes in a path as it is."""


@contextlib.contextmanager
def no_strays(dataset: LanceDataset) -> Iterator[None]:
    """Remove the empty folders that naming a version inside the block leaves behind."""
    folder = str(dataset.uri)
    spelled = folder if "://" in folder else quote(folder, safe=_PLAIN).replace("~", "%7E")
    if spelled == folder:
        yield
        return
    try:
        yield
    except OSError as error:
        beside = _first_other(folder, spelled)
        if "Permission denied" not in str(error) or os.path.isdir(beside):
            raise
        raise StorageError(
            f"{folder} cannot have branches or tags: Lance must be able to make {beside} for a "
            "moment",
            failure=StorageFailureKind.CONFIGURATION,
            hint="let it, or move the graph to a path of plain letters and digits",
        ) from error
    finally:
        for name in ("branches", "tags"):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(spelled, "_refs", name))
        _remove_empty(os.path.join(spelled, "_refs"), _first_other(folder, spelled))


def _first_other(folder: str, spelled: str) -> str:
    """Return the topmost folder that is spelled in another way."""
    parts, others = folder.split(os.sep), spelled.split(os.sep)
    same = next(i for i, pair in enumerate(zip(parts, others, strict=True)) if pair[0] != pair[1])
    return os.sep.join(others[: same + 1])


def _remove_empty(folder: str, last: str) -> None:
    # A folder in use is not empty, or made again by Lance when it is missed.
    with contextlib.suppress(OSError):
        while len(folder) >= len(last):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
