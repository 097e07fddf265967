"""Pieces made from objects and kept in the node cache: a row group unpacked, a file decompressed. Knows no format.

One process makes all pieces of an input, under a lock, and writes each as an entry of its exact size. Of a large input
that is read from the beginning it makes some more than requested, up to a quarter of the cache. A missing or incomplete
piece is made again, together with all others that are missing. The same input, maker and options give the same bytes in
every process, even if two make them at once.
"""

import hashlib
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from penstock.runtime.owned import make_folders
from penstock.store.blob import ByteRange, Store
from penstock.store.cache.account import CONTROL
from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import BUILDING, NodeCache
from penstock.store.cache.locks import LockedFile
from penstock.store.cache.lockwait import lock_in_time
from penstock.store.cache.paths import object_path
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent
from penstock.store.remote.remote import ObjectChanged

_SPACE_SECONDS = 10.0  # to wait for space with pieces in memory, rather than make them again


Piece = Sequence[bytes | memoryview]  # buffers that follow one another


class NoPiece(LookupError):
    """The input has fewer pieces."""


class Maker(ABC):
    """Makes pieces from an input. Pickles by import path, as readers do.

    Attributes:
        name: Identifier of what is made, with its version and all options. Pieces of another name are not used.
    """

    name: str

    @abstractmethod
    def make(self, path: str, within: ByteRange | None) -> Iterable[Piece]:
        """Yield the pieces of an input in order, the same ones each time. The input is closed before the first."""

    @abstractmethod
    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:
        """Return about how many bytes a piece has."""

    def inputs(self, path: str, within: ByteRange | None) -> Sequence[Extent]:  # noqa: ARG002
        """Return the bytes that are read to make the pieces of an input, for a forecast; none if it is not known."""
        return ()

    def last_piece(self, number: int) -> int | None:  # noqa: ARG002
        """Return the number of the last piece to make when one is asked for; None makes all of them.

        For large inputs that are read from the beginning: later pieces are made when they are asked for.
        """
        return None


def piece_path(path: str, number: int) -> str:
    """Return the path of one piece of an input in a ``DerivedStore``. Pieces are numbered from 0."""
    return f"{path}#{number}"


class DerivedStore(CacheBackedStore):
    """A ``Store`` of pieces that are made from the objects of another store, local or remote.

    Paths are those of ``piece_path``. The range of a unit is the range of the input that the pieces are made from.

    Args:
        inputs: Store of the inputs, for their versions. The maker reads them.
        maker: Maker of the pieces.
        cache: Cache that holds the pieces.

    Raises:
        TypeError: If the maker does not inherit from ``Maker``.
    """

    def __init__(self, inputs: Store, maker: Maker, cache: NodeCache) -> None:
        if not isinstance(maker, Maker):
            raise TypeError(f"the maker {type(maker).__name__} does not inherit from penstock.store.Maker")
        super().__init__(cache)
        self._inputs = inputs
        self._maker = maker
        self._versions: dict[str, str] = {}  # of inputs, when they were first needed
        self._largest = 0

    @property
    def url(self) -> str:
        return self._inputs.url

    @property
    def identity(self) -> str:
        return self._inputs.identity

    def enter(self, path: str, within: ByteRange | None, patience: float) -> CachedBlob:
        blob = self._find(path, within)
        if blob is None:
            # Evict first: pieces stay in memory until they can enter.
            self.cache.admission.evict_for(self.resolve_size(path, within), path, patience)
            blob = self._make(path, within)
        self._largest = max(self._largest, blob.size)
        return blob

    def open_if_here(self, path: str, within: ByteRange | None = None) -> CachedBlob | None:
        return self._find(path, within)

    def version(self, path: str) -> str:
        """Return the version of a piece: its input's version when first needed, and the maker's name."""
        key = _input(path)
        found = self._versions.get(key)
        if found is None:
            found = self._versions.setdefault(key, self._inputs.version(key))
        return f"{found}+{self._maker.name}"

    def resolve_size(self, path: str, within: ByteRange | None = None) -> int:
        size = self.known_size(path, within)
        return self._maker.expected_size(_input(path), within, _number(path)) if size is None else size

    def known_size(self, path: str, within: ByteRange | None = None) -> int | None:
        try:
            return self.place(path, within).stat().st_size
        except FileNotFoundError:
            return None

    def estimated_size(self) -> int:
        return self._largest

    def inputs(self, path: str, within: ByteRange | None) -> Sequence[Extent]:
        """Return the bytes that are read to make a piece, and all others of its input; see ``Maker.inputs``."""
        return self._maker.inputs(_input(path), within)

    def finished(self, path: str, within: ByteRange | None = None) -> None:
        self.cache.evict_first(self.place(path, within))

    def pieces(self, path: str, within: ByteRange | None) -> Iterator[Piece]:
        """Make all pieces of an input.

        Raises:
            ObjectChanged: If the input has another version than the pieces.
        """
        key = _input(path)
        version = self.version(path)
        for piece in self._maker.make(key, within):
            if f"{self._inputs.version(key)}+{self._maker.name}" != version:
                raise ObjectChanged(f"{self.url}/{key}: was replaced during the run; start the run again")
            yield piece

    def _find(self, path: str, within: ByteRange | None) -> CachedBlob | None:
        place = self.place(path, within)
        entry = self.cache.pins.enter_if_complete(place)
        if entry is None:
            return None
        return CachedBlob(self.cache, place, entry.size, _PieceOrigin(self, path, within), self.cache.patience, entry)

    def _make(self, path: str, within: ByteRange | None) -> CachedBlob:
        """Make all pieces of an input, unless another process does; return the requested one."""
        first = self.place(piece_path(_input(path), 0), within)
        notes = self.cache.root / CONTROL / BUILDING
        make_folders(self.cache.root, notes)
        note = notes / hashlib.sha256(str(first).encode()).hexdigest()
        while True:
            with LockedFile(note, os.O_RDWR | os.O_CREAT) as lock:
                mine = lock_in_time(lock, 0, lambda: self._find(path, within) is not None, f"the making of {path}")
                if blob := self._find(path, within):
                    return blob
                if not mine or os.fstat(lock.fd).st_nlink:  # unlinked: another lock of that name may be held
                    try:
                        return self._make_all(path, within)
                    finally:
                        note.unlink(missing_ok=True)

    def _make_all(self, path: str, within: ByteRange | None) -> CachedBlob:
        """Make all pieces, or those up to the maker's ``last_piece``.

        Raises:
            NoPiece: If the input has fewer pieces.
        """
        asked: CachedBlob | None = None
        wanted = _number(path)
        last = self._maker.last_piece(wanted)
        space = self.cache.max_bytes // 4  # more at once would evict what is requested next
        for number, piece in enumerate(self.pieces(path, within)):
            if last is not None and number < wanted and space <= 0:
                continue
            surplus = last is not None and number != wanted
            try:
                blob = self._write(piece_path(_input(path), number), within, piece, 0 if surplus else _SPACE_SECONDS)
            except CacheInUse:
                if not surplus:
                    raise
                space = 0
            else:
                space -= blob.size
                if number == wanted:
                    asked = blob
                    space = self.cache.max_bytes // 4
                else:
                    blob.close()
            if last is not None and number >= wanted and (number == last or space <= 0):
                break
        else:
            if isinstance(self._inputs, CacheBackedStore):
                self._inputs.finished(_input(path), within)
        if asked is None:
            raise NoPiece(f"{path}: the input has fewer pieces")
        return asked

    def _write(self, path: str, within: ByteRange | None, piece: Piece, patience: float) -> CachedBlob:
        data = memoryview(b"".join(piece))
        origin = _PieceOrigin(self, path, within, data)
        blob = CachedBlob(self.cache, self.place(path, within), len(data), origin, patience)
        try:
            blob.fetch_whole()
        except BaseException:
            blob.close()
            raise
        origin.forget()
        return blob

    def place(self, path: str, within: ByteRange | None = None) -> Path:
        return self.cache.root / object_path(self._inputs.identity, path, self.version(path), within)


class _PieceOrigin:
    """Origin of a piece's entry. Holds the bytes while they are written; later they are made again."""

    def __init__(
        self, store: DerivedStore, path: str, within: ByteRange | None, data: memoryview | None = None
    ) -> None:
        self._store = store
        self._path = path
        self._within = within
        self._data = data

    @property
    def version(self) -> str:
        return self._store.version(self._path)

    def get(self, start: int, end: int) -> memoryview:
        data = self._data
        if data is None:
            pieces = self._store.pieces(self._path, self._within)
            data = memoryview(b"".join(next(itertools.islice(pieces, _number(self._path), None))))
        return data[start:end]

    def forget(self) -> None:
        self._data = None

    def __str__(self) -> str:
        return f"{self._store.url}/{self._path}"


def _input(path: str) -> str:
    return path.rpartition("#")[0]


def _number(path: str) -> int:
    return int(path.rpartition("#")[2])
