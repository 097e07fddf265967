"""Row groups become pieces of a known number of rows, the same ones each time."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.readers.parquet import unpack
from penstock.readers.parquet.footer import NotParquet, find_footer
from penstock.readers.parquet.unpack import MOST_ROWS, RowGroupUnpacker, rows_per_piece
from penstock.readers.ranges import Ranges
from penstock.store.cache.derived import Piece
from penstock.store.local import LocalStore
from tests.readers.parquet.tables import parquet_bytes, table_of, write_parquet


def opened(folder: Path) -> Ranges:
    return Ranges(lambda: LocalStore(folder))


def read_piece(piece: Piece) -> pa.Table:
    return pa.ipc.open_stream(pa.BufferReader(b"".join(piece))).read_all()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_parquet(tmp_path / "rows.parquet", 1_000, (300, 700))
    return tmp_path


def test_pieces_hold_the_rows_of_the_row_group_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MOST_ROWS", 256)
    ranges = opened(folder)
    footer = ranges.follow("rows.parquet", find_footer)
    maker = RowGroupUnpacker(ranges, ["blob", "index"], folder / "metadata")
    pieces = [read_piece(piece) for piece in maker.make("rows.parquet", footer.byte_ranges[1])]
    assert [piece.num_rows for piece in pieces] == [256, 256, 188]
    assert pa.concat_tables(pieces) == table_of(1_000).slice(300).select(["blob", "index"])


def test_large_rows_make_small_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    footer = opened(folder).follow("rows.parquet", find_footer)
    assert rows_per_piece(footer, 1) == MOST_ROWS
    monkeypatch.setattr(unpack, "MOST_BYTES", 10_000)
    rows = rows_per_piece(footer, 1)
    assert 10 < rows < 40, "a row has about 350 bytes"
    monkeypatch.setattr(unpack, "MOST_BYTES", 1)
    assert rows_per_piece(footer, 1) == 1


def test_the_same_input_gives_the_same_bytes_and_columns_are_part_of_the_name(folder: Path) -> None:
    ranges = opened(folder)
    footer = ranges.follow("rows.parquet", find_footer)
    names = set()
    for columns in (None, ["blob"], ["blob", "index"]):
        one = RowGroupUnpacker(ranges, columns, folder / "metadata")
        two = RowGroupUnpacker(opened(folder), columns, folder / "other")
        made = [[b"".join(piece) for piece in each.make("rows.parquet", footer.byte_ranges[0])] for each in (one, two)]
        assert made[0] == made[1] and one.name == two.name
        names.add(one.name)
    assert len(names) == 3


def test_the_size_of_a_piece_is_known_about_before_it_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MOST_ROWS", 256)
    ranges = opened(folder)
    footer = ranges.follow("rows.parquet", find_footer)
    maker = RowGroupUnpacker(ranges, None, folder / "metadata")
    within = footer.byte_ranges[1]
    for number, piece in enumerate(maker.make("rows.parquet", within)):
        size = sum(map(len, piece))
        # The expectation leaves out Arrow's own headers and counts bytes as Parquet encodes them.
        assert 0.5 * size < maker.expected_size("rows.parquet", within, number) < 2 * size


def test_damage_is_no_parquet(tmp_path: Path) -> None:
    data = bytearray(parquet_bytes(table_of(100), (100,)))
    (tmp_path / "rows.parquet").write_bytes(data)
    footer = opened(tmp_path).follow("rows.parquet", find_footer)
    start, end = footer.byte_ranges[0]
    data[start:end] = bytes(end - start)
    (tmp_path / "rows.parquet").write_bytes(data)
    with pytest.raises(NotParquet, match="row group 0"):
        list(RowGroupUnpacker(opened(tmp_path), None, tmp_path / "metadata").make("rows.parquet", (start, end)))
