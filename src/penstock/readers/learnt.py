"""What is learnt about objects by a search: kept in memory and on a shelf, found once. Knows nothing of what it is."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.readers.kept import Kept
from penstock.readers.ranges import Ranges, Search
from penstock.readers.shelf import Shelf
from penstock.store.extents import Extent

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of knowledge about an object.

    Attributes:
        name: with the version of its form as bytes.
        search: begins the search in an object of a given size.
        to_bytes: returns what is put on the shelf.
        from_bytes: the inverse.
    """

    name: str
    search: Callable[[int], Search[T]]
    to_bytes: Callable[[T], bytes]
    from_bytes: Callable[[memoryview], T]


class Learnt(Generic[T]):
    """What is known of the objects of a store. Any number of threads may use it.

    Args:
        kind: what it is.
        ranges: the objects.
        folder: of the shelf.
        capacity: objects of which it is kept in memory.
    """

    def __init__(self, kind: Kind[T], ranges: Ranges, folder: Any, capacity: int) -> None:
        self._kind = kind
        self._ranges = ranges
        self._shelf = Shelf(folder, kind.name)
        self._kept: Kept[str, T] = Kept(capacity)

    def get(self, path: str) -> T:
        """Return what is known of an object. Searches, and may wait, if it is not known yet."""
        return self._kept.get_or_make(path, lambda: self._find(path))

    def get_if_here(self, path: str) -> T | Extent:
        """Return the same, or the bytes that have to be fetched first. Never waits."""
        known = self._kept.get(path)
        if known is not None:
            return known
        about = self._ranges.known_subject(path)
        on_shelf = self._shelf.get(about) if about else None
        if on_shelf is not None:
            return self._kept.put(path, self._kind.from_bytes(on_shelf))
        found = self._ranges.follow_if_here(path, self._kind.search)
        return found if isinstance(found, Extent) else self._kept.put(path, self._keep(path, found))

    def _find(self, path: str) -> T:
        on_shelf = self._shelf.get(self._ranges.subject(path))
        if on_shelf is not None:
            return self._kind.from_bytes(on_shelf)
        return self._keep(path, self._ranges.follow(path, self._kind.search))

    def _keep(self, path: str, found: T) -> T:
        with suppress(OSError):  # on a full disk: other processes search for themselves
            self._shelf.put(self._ranges.subject(path), self._kind.to_bytes(found))
        return found
