"""The one cache: it holds up to a limit, and what was not used for longest goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps the values used last. Safe to share between threads.

    The limit is a number of values, or whatever their weights count, such as bytes. A value that
    weighs more than the limit is not kept, and takes no other with it. None is not a value.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a cache needs room for something, got {limit}")
        self.limit = limit
        self._lock = threading.Lock()
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self._hits = 0
        self._misses = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter(list(self._items))

    @property
    def weight(self) -> int:
        """What the values weigh together; their number unless something else was said."""
        return self._weight

    @property
    def hits(self) -> int:
        """How often a value was found."""
        return self._hits

    @property
    def misses(self) -> int:
        """How often there was none."""
        return self._misses

    def get(self, key: K) -> V | None:
        """Return a value and mark it as used; None when it is not here."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                self._misses += 1
                return None
            self._hits += 1
            self._items.move_to_end(key)
            return item[0]

    def get_all(self, keys: Iterable[K]) -> list[V | None]:
        """Return many values as `get` does each, None where there is none."""
        items = self._items
        values: list[V | None] = []
        with self._lock:
            for key in keys:
                item = items.get(key)
                if item is None:
                    self._misses += 1
                    values.append(None)
                else:
                    self._hits += 1
                    items.move_to_end(key)
                    values.append(item[0])
        return values

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Keep a value as the one used last; others go if there is no room."""
        with self._lock:
            self._drop(key)
            self._add_item(key, value, weight)

    def reweigh(self, key: K, weight: int) -> None:
        """Note that a value weighs more or less since it was put."""
        with self._lock:
            item = self._items.get(key)
            if item is not None and item[1] != weight:
                self._drop(key)
                self._add_item(key, item[0], weight)

    def pop(self, key: K) -> V | None:
        """Forget a value and return it; None when it is not here."""
        with self._lock:
            return self._drop(key)

    def values(self) -> list[V]:
        """Return what is here, the value used last at the end."""
        with self._lock:
            return [value for value, _weight in self._items.values()]

    def _drop(self, key: K) -> V | None:
        item = self._items.pop(key, None)
        if item is None:
            return None
        self._weight -= item[1]
        return item[0]

    def _add_item(self, key: K, value: V, weight: int) -> None:
        if weight > self.limit:
            return
        self._items[key] = (value, weight)
        self._weight += weight
        while self._weight > self.limit:
            _key, (_value, weight) = self._items.popitem(last=False)
            self._weight -= weight
