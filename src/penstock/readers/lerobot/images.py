"""Cameras whose images are embedded in the rows. Finds their bytes; decodes nothing.

A row group with images is unpacked once, into pieces in the node cache. Reading an image then takes microseconds and
holds no memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from penstock.plan.draws import Ints
from penstock.readers.arrow.mapped import MappedTables
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.parquet.footer import Footer, NotParquet
from penstock.readers.parquet.unpack import RowGroupUnpacker, rows_per_piece
from penstock.readers.ranges import Ranges
from penstock.store.blob import ByteRange
from penstock.store.cache.derived import DerivedStore, Maker, piece_path
from penstock.store.extents import Extent, Unit


class _ImagePlace(NamedTuple):
    piece: str
    within: ByteRange  # of the row group
    row: int  # in the piece


class EmbeddedImages:
    """Embedded images. Any number of threads may use it. Episodes are named by their place in the dataset.

    Args:
        dataset: Dataset.
        files: Files of its rows.
        ranges: Bytes of its files.
        cameras: Cameras to read.
        metadata: Folder of the metadata cache.
        derive: Function that opens a store of the pieces that a maker makes of the dataset's files.
    """

    def __init__(
        self,
        dataset: Dataset,
        files: RowFiles,
        ranges: Ranges,
        cameras: Sequence[str],
        metadata: Path,
        derive: Callable[[Maker], DerivedStore],
    ) -> None:
        self._dataset = dataset
        self._files = files
        self._open_store: Callable[[], DerivedStore] = cache(
            lambda: derive(RowGroupUnpacker(ranges, cameras, metadata))
        )
        self._pieces = MappedTables(self._open_store)

    def extents(self, at: int, frames: Iterable[int] | None = None) -> Sequence[Extent]:
        """Return the pieces with the images of an episode, or the bytes to fetch first. Never waits.

        Args:
            at: Place of the episode in the dataset.
            frames: Frames of the episode; None for all.
        """
        footer = self._files.footer_if_here(at)
        if not isinstance(footer, Footer):
            return () if footer is None else (footer,)
        wanted = range(int(self._dataset.episodes.length[at])) if frames is None else frames
        places = dict.fromkeys(self._place(footer, at, frame)[:2] for frame in wanted)
        store = self._open_store()
        return [Extent(Unit(store, piece, within), 0) for piece, within in places]

    def find(self, camera: str, at: int, frames: Ints) -> "ImageFrames":
        """Return the images of a camera at some frames of an episode. May wait for the footer of the file.

        Raises:
            ContentError: If the file is damaged, or has no such rows.
        """
        footer = self._files.footer(at)
        path = self._dataset.data_path(at)
        self._files.require_columns(at, (camera,))
        info = self._dataset.info.features[camera].info
        places = [self._place(footer, at, frame) for frame in frames.tolist()]
        file = f"{self._dataset.name}/{path}, {self._dataset.episode_name(at)}"
        return ImageFrames(self._pieces, camera, file, frames.tolist(), places, info)

    def _place(self, footer: Footer, at: int, frame: int) -> _ImagePlace:
        row = self._files.span(at, footer)[0] + frame
        group = footer.groups_of(row, row + 1).start
        number, row = divmod(row - int(footer.first_rows[group]), rows_per_piece(footer, group))
        return _ImagePlace(piece_path(self._dataset.data_path(at), number), footer.byte_ranges[group], row)

    def close(self) -> None:
        self._pieces.close()


class ImageFrames(NamedTuple):
    """Embedded images of one camera, in the order of a window.

    Attributes:
        pieces: Tables that hold the images.
        camera: Key of the camera.
        file: File and episode, for messages.
        frames: Numbers of the images in the episode.
        places: Places of the images.
        info: Description of the camera in the dataset.
    """

    pieces: MappedTables
    camera: str
    file: str
    frames: list[int]
    places: list[_ImagePlace]
    info: Mapping[str, Any]

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each image for messages, and the encoded image.

        Raises:
            ContentError: If there is none, or the file is damaged.
        """
        for frame, place in zip(self.frames, self.places, strict=True):
            name = f"{self.file}, frame {frame}: {self.camera}"
            yield name, self._read(name, place)

    def _read(self, name: str, place: _ImagePlace) -> bytes:
        try:
            value = self.pieces.table(place.piece, place.within).column(self.camera)[place.row].as_py()
        except NotParquet as error:
            raise ContentError(self.file, None, f"{self.file}: {error}") from None
        data = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(data, bytes):
            raise ContentError(self.file, None, f"{name}: the row has no image")
        return data
