"""Files that describe a folder of media, as the hub's ``imagefolder`` has them; see ``recordfile.RecordFile``.

{"file_name": "cats/7.jpg", "text": "…"}    ->    {"file_name": …, "text": …, "image": "cats/7.jpg"}
"""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.plan.draws import Ints
from penstock.readers.records.content import BadRecord
from penstock.readers.records.recordfile import Place, RecordFile, Segment, Weight
from penstock.store.extents import Extent

_ENDING = "file_name"


class Described:
    """A file whose records name files beside it.

    Args:
        file: the file.
        medium: the column that gets the path, such as ``image``. A column ``mask_file_name`` becomes ``mask``.
    """

    def __init__(self, file: RecordFile, medium: str) -> None:
        self._file = file
        self._medium = medium

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def layout(self) -> str:
        return f"{self._file.layout} of {self._medium}"

    def segment(self, number: int, mark: int) -> Segment:
        return self._file.segment(number, mark)

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[dict[str, Any] | BadRecord]:
        for record in self._file.records(places, leave_out):
            yield record if isinstance(record, BadRecord) else self._named(record)

    def load(self, place: Place) -> dict[str, Any]:
        return self._named(self._file.load(place))

    def _named(self, record: dict[str, Any]) -> dict[str, Any]:
        names = {
            name.removesuffix(_ENDING).rstrip("_") or self._medium: value
            for name, value in record.items()
            if name == _ENDING or name.endswith(f"_{_ENDING}")
        }
        return {**names, **record}

    def extents(self, places: Ints) -> Sequence[Extent]:
        return self._file.extents(places)

    def count(self) -> int | None:
        return self._file.count()

    def weight(self) -> Weight:
        return self._file.weight()

    def close(self) -> None:
        self._file.close()
