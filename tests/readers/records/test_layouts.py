"""Records segment by segment, as they lie in files: the same ones, wherever a segment ends."""

import csv
import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from penstock.readers.errors import ContentError
from penstock.readers.records.content import BadRecord, Content
from penstock.readers.records.layouts import Array, Csv, Layout, Lines, bound

MIB = 1 << 20


@dataclass(eq=False)
class Memory:
    """Content that is in memory. Counts what is read at once."""

    data: bytes
    most: int = 0

    def size(self, path: str) -> int:
        return len(self.data)

    def upto(self, path: str, end: int) -> int:
        return min(end, len(self.data))

    def read(self, path: str, start: int, end: int) -> np.ndarray:
        assert 0 <= start <= end <= len(self.data)
        self.most = max(self.most, end - start)
        return np.frombuffer(self.data, np.uint8, end - start, start)

    def extents(self, path: str, start: int, end: int) -> list[Any]:
        return []

    def close(self) -> None:
        pass


def content(data: bytes) -> Content:
    return Content(Memory(data), "some.file")


def found(layout: Layout, of: Content) -> list[bytes]:
    """The bytes of all records, segment by segment."""
    records = []
    number = 0
    mark: int | None = 0
    while mark is not None:
        segment = layout.find(of, number, mark)
        records += [
            of.read(start, end).tobytes()
            for start, end in zip(segment.starts.tolist(), segment.ends.tolist(), strict=True)
        ]
        mark = segment.mark
        number += 1
    return records


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("line", [b'{"a": 1}', b'   {"a": 1}'])
def test_a_line_belongs_to_the_segment_in_which_it_begins(end: bytes, offset: int, line: bytes) -> None:
    first = b"x" * (bound(1) + offset - len(end))
    longer_than_a_segment = b"y" * (bound(3) - bound(2) + 5)
    lines = [first, line, b"", line, longer_than_a_segment, line]
    assert found(Lines(), content(end.join(lines))) == [each for each in lines if each]


def test_lines_can_be_found_in_any_order() -> None:
    of = content(b"\n".join(b"%d" % number for number in range(300_000)))
    layout = Lines()
    count = layout.count(of)
    assert count == 2
    second = layout.find(of, 1, 0)
    first = layout.find(of, 0, 0)
    assert second.starts[0] == first.ends[-1] + 1
    assert len(first.starts) + len(second.starts) == 300_000


def test_a_long_line_is_not_read_into_memory_to_find_its_end() -> None:
    of = content(b'{"a": 1}\n' + b"x" * (40 * MIB) + b'\r\n{"b": 2}')
    assert [len(each) for each in found_places(Lines(), of)] == [8, 40 * MIB, 8]
    assert of.strided.most <= 16 * MIB + 1


def found_places(layout: Layout, of: Content) -> list[range]:
    places = []
    number = 0
    mark: int | None = 0
    while mark is not None:
        segment = layout.find(of, number, mark)
        places += [range(start, end) for start, end in zip(segment.starts.tolist(), segment.ends.tolist(), strict=True)]
        mark = segment.mark
        number += 1
    return places


def test_elements_of_an_array_are_found_over_many_segments() -> None:
    values = [{"n": number, "text": 'a "quoted" [text], ' * 60} for number in range(3_000)]
    of = content(json.dumps(values, indent=1).encode())
    assert of.size > bound(2)
    assert [json.loads(each) for each in found(Array(), of)] == values


def test_after_an_element_that_is_too_long_the_array_goes_on() -> None:
    long = b'{"text": "' + b'x\\"],' * (14 * MIB) + b'"}'
    of = content(b'[{"a": 1}, ' + long + b', {"b": 2}]')
    places = found_places(Array(), of)
    assert [len(each) for each in places][0::2] == [8, 8]
    assert len(places) == 3


def test_rows_of_csv_are_found_over_many_segments_with_the_columns_of_the_first() -> None:
    rows = [[str(number), 'a "quoted"\ntext, ' * 50] for number in range(2_000)]
    text = io.StringIO()
    csv.writer(text).writerows([["n", "text"], *rows])
    of = content(b"\xef\xbb\xbf" + text.getvalue().encode())
    layout = Csv(",")
    assert [layout.parse(of, each) for each in found(layout, of)] == [{"n": n, "text": t} for n, t in rows]


def test_a_field_of_csv_may_be_longer_than_the_csv_module_allows() -> None:
    long = 'say ""hello"", ' * 20_000
    of = content(f'a,b\n1,"{long}"\n'.encode())
    [row] = found(Csv(","), of)
    assert Csv(",").parse(of, row) == {"a": "1", "b": long.replace('""', '"')}


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
        Lines().parse(content(data), data)


def test_a_mark_at_the_beginning_of_a_line_is_left_out() -> None:
    assert Lines().parse(content(b""), b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_a_row_of_csv_that_does_not_fit_has_a_reason() -> None:
    of = content(b"a,b\n1,2\n")
    with pytest.raises(BadRecord, match="another number of columns"):
        Csv(",").parse(of, b"1,2,3")
    with pytest.raises(BadRecord, match="not UTF-8"):
        Csv(",").parse(of, b"1,\xff")


def test_an_empty_file_of_lines_has_no_records_and_one_of_csv_no_columns() -> None:
    assert found(Lines(), content(b"")) == []
    assert found(Lines(), content(b"\xef\xbb\xbf\r\n  \n")) == []
    with pytest.raises(ContentError, match="has no row with the names of its columns"):
        found(Csv(","), content(b""))
    with pytest.raises(ContentError, match="is no JSON array"):
        found(Array(), content(b"  "))


def test_a_column_of_csv_that_is_named_twice_is_an_error_that_names_it() -> None:
    with pytest.raises(ContentError, match="its first row names the column 'text' twice; rename one"):
        found(Csv(","), content(b"text,answer,text\na,b,c\n"))


def test_columns_of_csv_without_a_name_may_be_several() -> None:
    assert Csv(",").parse(content(b"text,,\na,b,c\n"), b"a,b,c")["text"] == "a"
