"""Records segment by segment, as they lie in files: the same ones, wherever a segment ends."""

import csv
import io
import json

import numpy as np
import pytest

from penstock.readers.errors import ContentError
from penstock.readers.records.files.csvfile import CsvFile
from penstock.readers.records.files.filebytes import FileBytes
from penstock.readers.records.files.jsonfile import JsonArray, JsonLines
from penstock.readers.records.files.recordfile import BadRecord
from penstock.readers.records.files.textfile import TextFile, bound
from penstock.store.extents import Extent
from tests.readers.records.files.reading import segments

MIB = 1 << 20


class Memory(FileBytes):
    """Content that is in memory. Counts what is read at once."""

    def __init__(self, data: bytes) -> None:
        super().__init__("some.file")
        self.data = data
        self.most = 0

    def upto(self, end: int) -> int:
        return min(end, len(self.data))

    def read(self, start: int, end: int) -> np.ndarray:
        assert 0 <= start <= end <= len(self.data)
        self.most = max(self.most, end - start)
        return np.frombuffer(self.data, np.uint8, end - start, start)

    def extents(self, start: int, end: int) -> list[Extent]:
        return []

    def cached_size(self) -> int:
        return 0


def lines(data: bytes) -> JsonLines:
    return JsonLines(Memory(data))


def array(data: bytes) -> JsonArray:
    return JsonArray(Memory(data))


def rows_of(data: bytes) -> CsvFile:
    return CsvFile(Memory(data), ",")


def found_places(file: TextFile) -> list[range]:
    return [range(start, end) for places in segments(file) for start, end in places.tolist()]


def found(file: TextFile) -> list[bytes]:
    """The bytes of all records, segment by segment."""
    return [file.content.read(each.start, each.stop).tobytes() for each in found_places(file)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("line", [b'{"a": 1}', b'   {"a": 1}'])
def test_a_line_belongs_to_the_segment_in_which_it_begins(end: bytes, offset: int, line: bytes) -> None:
    first = b"x" * (bound(1) + offset - len(end))
    longer_than_a_segment = b"y" * (bound(3) - bound(2) + 5)
    written = [first, line, b"", line, longer_than_a_segment, line]
    assert found(lines(end.join(written))) == [each for each in written if each]


def test_lines_can_be_found_in_any_order() -> None:
    file = lines(b"\n".join(b"%d" % number for number in range(300_000)))
    assert file.count() == 2
    second = file.segment(1, 0).places
    first = file.segment(0, 0).places
    assert second[0, 0] == first[-1, 1] + 1
    assert len(first) + len(second) == 300_000


def test_a_long_line_is_not_read_into_memory_to_find_its_end() -> None:
    content = Memory(b'{"a": 1}\n' + b"x" * (40 * MIB) + b'\r\n{"b": 2}')
    assert [len(each) for each in found_places(JsonLines(content))] == [8, 40 * MIB, 8]
    assert content.most <= 16 * MIB + 1


def test_elements_of_an_array_are_found_over_many_segments() -> None:
    values = [{"n": number, "text": 'a "quoted" [text], ' * 60} for number in range(3_000)]
    file = array(json.dumps(values, indent=1).encode())
    assert file.content.size() > bound(2)
    assert [json.loads(each) for each in found(file)] == values


def test_after_an_element_that_is_too_long_the_array_goes_on() -> None:
    long = b'{"text": "' + b'x\\"],' * (14 * MIB) + b'"}'
    places = found_places(array(b'[{"a": 1}, ' + long + b', {"b": 2}]'))
    assert [len(each) for each in places][0::2] == [8, 8]
    assert len(places) == 3


def test_rows_of_csv_are_found_over_many_segments_with_the_columns_of_the_first() -> None:
    rows = [[str(number), 'a "quoted"\ntext, ' * 50] for number in range(2_000)]
    text = io.StringIO()
    csv.writer(text).writerows([["n", "text"], *rows])
    file = rows_of(b"\xef\xbb\xbf" + text.getvalue().encode())
    assert [file.parse(each) for each in found(file)] == [{"n": n, "text": t} for n, t in rows]


def test_a_field_of_csv_may_be_longer_than_the_csv_module_allows() -> None:
    long = 'say ""hello"", ' * 20_000
    file = rows_of(f'a,b\n1,"{long}"\n'.encode())
    [row] = found(file)
    assert file.parse(row) == {"a": "1", "b": long.replace('""', '"')}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": ', "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        ('{"a": 1}'.encode("utf-16-le"), "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"[" * 99_999, "not JSON"),
    ],
)
def test_a_line_that_is_no_json_object_has_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=f"^{reason}$"):
        lines(data).parse(data)


def test_a_mark_at_the_beginning_of_a_line_is_left_out() -> None:
    assert lines(b"").parse(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_a_row_of_csv_that_does_not_fit_has_a_reason() -> None:
    file = rows_of(b"a,b\n1,2\n")
    with pytest.raises(BadRecord, match="another number of columns"):
        file.parse(b"1,2,3")
    with pytest.raises(BadRecord, match="not UTF-8"):
        file.parse(b"1,\xff")


def test_an_empty_file_of_lines_has_no_records_and_one_of_csv_no_columns() -> None:
    assert found(lines(b"")) == []
    assert found(lines(b"\xef\xbb\xbf\r\n  \n")) == []
    with pytest.raises(ContentError, match="has no row with the names of its columns"):
        found(rows_of(b""))
    with pytest.raises(ContentError, match="is no JSON array"):
        found(array(b"  "))


def test_a_column_of_csv_that_is_named_twice_is_an_error_that_names_it() -> None:
    with pytest.raises(ContentError, match="its first row names the column 'text' twice; rename one"):
        found(rows_of(b"text,answer,text\na,b,c\n"))


def test_columns_of_csv_without_a_name_may_be_several() -> None:
    assert rows_of(b"text,,\na,b,c\n").parse(b"a,b,c")["text"] == "a"
