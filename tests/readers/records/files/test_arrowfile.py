"""Arrow files are read by record batches: every record is the one that pyarrow reads, and no more is fetched."""

import datetime
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.readers.errors import ContentError
from penstock.readers.records.files.arrowfile import ArrowBatchFile, ArrowTableFile
from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.files.recordfile import RecordFile
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.local import LocalStore
from penstock.store.remote.remote import ObjectChanged
from tests.readers.records.files.reading import segments
from tests.store.folder_remote import FolderRemote

KIB = 1 << 10
MIB = 1 << 20
WRITERS = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("turns", pa.list_(pa.struct([("role", pa.string()), ("words", pa.list_(pa.string()))]))),
        ("image", IMAGE),
        ("score", pa.float64()),
        ("nothing", pa.null()),
        ("empty", pa.list_(pa.string())),
        ("sound", pa.binary()),
    ]
)
SIZES = {
    "small batches": [40] * 12,
    "large batches": [250, 200, 1],
    "batches of all sizes": [1, 0, 30, 220, 0, 0, 90, 240, 3, 0],
}


def row(number: int, rng: np.random.Generator) -> dict[str, Any]:
    image = {"bytes": rng.bytes(7_000 + number), "path": None if number % 3 else f"{number}.png"}
    turns = [{"role": "user", "words": ["naïve", None, str(number)]}, {"role": None, "words": None}]
    return {
        "text": None if number % 7 == 0 else f"What is {number}?",
        "turns": None if number % 5 == 0 else turns[: number % 3],
        "image": None if number % 4 == 0 else image,
        "score": None if number % 2 else number / 3,
        "nothing": None,
        "empty": [],
        "sound": None if number % 6 == 0 else rng.bytes(100),
    }


def batches(sizes: list[int]) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(0)
    numbers = itertools.count()
    return [pa.RecordBatch.from_pylist([row(next(numbers), rng) for _ in range(size)], schema=SCHEMA) for size in sizes]


def written(parts: list[pa.RecordBatch], writer: Callable[..., Any], **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with writer(sink, parts[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        for part in parts:
            out.write_batch(part)
    return bytes(sink.getvalue())


def remote_file(folder: Path, data: bytes, cache: str = "cache") -> tuple[RecordFile, FolderRemote]:
    remote = FolderRemote(folder / "bucket")
    remote.put("rows.arrow", data)
    store = CachedStore(remote, NodeCache(folder / cache, 100 * MIB, part_bytes=256 * KIB))
    files = RecordFiles(lambda: store, lambda _: pytest.fail("nothing is unpacked"), folder / "metadata")
    return files.open("rows.arrow"), remote


def local_file(folder: Path, data: bytes) -> RecordFile:
    (folder / "rows.arrow").write_bytes(data)
    files = RecordFiles(lambda: LocalStore(folder), lambda _: pytest.fail("nothing is unpacked"), folder / "metadata")
    return files.open("rows.arrow")


def loaded(file: RecordFile) -> list[dict[str, Any]]:
    return [file.load((first, second)) for places in segments(file) for first, second in places.tolist()]


def fetched(remote: FolderRemote) -> int:
    return sum(end - start for _, start, end in remote.gets)


@pytest.mark.parametrize("where", ["remote", "local"])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_record_is_the_one_that_pyarrow_reads(sizes: str, writer: str, where: str, tmp_path: Path) -> None:
    parts = batches(SIZES[sizes])
    data = written(parts, WRITERS[writer])
    file = remote_file(tmp_path, data)[0] if where == "remote" else local_file(tmp_path, data)
    assert isinstance(file, ArrowBatchFile)
    expected = pa.Table.from_batches(parts).to_pylist()
    assert loaded(file) == expected
    assert [record for places in segments(file) for record in file.records(places, ())] == expected


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_bucket_and_a_folder_have_the_same_segments(sizes: str, writer: str, tmp_path: Path) -> None:
    data = written(batches(SIZES[sizes]), WRITERS[writer])
    remote, _ = remote_file(tmp_path, data)
    local = local_file(tmp_path, data)
    found = [[places.tolist() for places in segments(file)] for file in (remote, local)]
    assert found[0] == found[1]


@pytest.mark.parametrize("sizes", SIZES)
def test_units_do_not_overlap_and_what_is_fetched_ahead_is_what_is_read(sizes: str, tmp_path: Path) -> None:
    data = written(batches(SIZES[sizes]), pa.ipc.new_stream)
    assert len(data) > MIB
    file, remote = remote_file(tmp_path, data)
    units = dict.fromkeys(extent.unit for places in segments(file) if len(places) for extent in file.extents(places))
    ranges = [unit.within for unit in units]
    assert all(before and after and before[1] <= after[0] for before, after in itertools.pairwise(ranges))
    seen = fetched(remote)
    assert seen < 0.2 * len(data) + 64 * KIB, "where batches lie is seen from a part of the file"
    loaded(file)
    assert fetched(remote) - seen <= len(data)
    before = len(remote.gets)
    for unit in units:
        blob = unit.store.open(unit.path, unit.within)
        blob.readinto(memoryview(bytearray(blob.size)), 0)
        blob.close()
    assert len(remote.gets) == before


def test_a_large_batch_has_several_segments_in_one_unit(tmp_path: Path) -> None:
    numbers = pa.record_batch({"number": np.arange(20_000), "text": ["words " * 20] * 20_000})
    file, _ = remote_file(tmp_path, written([numbers, numbers.slice(0, 10)], pa.ipc.new_stream))
    found = segments(file)
    assert [len(places) for places in found] == [8_192, 8_192, 3_616, 10]
    assert len({extent for places in found[:3] for extent in file.extents(places)}) == 1
    assert [each["number"] for each in loaded(file)] == [*range(20_000), *range(10)]
    assert [each["number"] for each in file.records(found[1], ())] == [*range(8_192, 16_384)]  # type: ignore[index]


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}], ids=["plain", "compressed"])
@pytest.mark.parametrize("writer", WRITERS)
def test_an_index_reads_no_bytes_of_media_and_sees_which_records_have_one(
    writer: str, options: dict[str, Any], tmp_path: Path
) -> None:
    parts = batches([400, 20, 900])
    data = written(parts, WRITERS[writer], **options)
    file, remote = remote_file(tmp_path, data)
    asked = [record for places in segments(file) for record in file.records(places, ("image",))]
    expected = pa.Table.from_batches(parts).to_pylist()
    for record in expected:
        record["image"] = record["image"] and {"path": record["image"]["path"]}
    assert asked == expected
    assert options or fetched(remote) < 1.5 * MIB < len(data) / 4
    assert loaded(file) == pa.Table.from_batches(parts).to_pylist(), "what was left out is fetched when it is needed"


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_record_batches_with_compressed_buffers_are_read_by_themselves_too(compression: str, tmp_path: Path) -> None:
    parts = batches([40, 250, 40])
    file, _ = remote_file(tmp_path, written(parts, pa.ipc.new_file, compression=compression))
    assert isinstance(file, ArrowBatchFile)
    assert loaded(file) == pa.Table.from_batches(parts).to_pylist()


def test_the_first_record_needs_its_batch_and_none_of_those_behind_it(tmp_path: Path) -> None:
    data = written(batches([40] * 16), pa.ipc.new_stream)
    file, remote = remote_file(tmp_path, data)
    places = file.segment(0, 0).places
    assert file.load(tuple(places[0].tolist()))["text"] is None
    assert file.load(tuple(places[1].tolist()))["text"] == "What is 1?"
    assert fetched(remote) < 1.5 * MIB < len(data) / 2


@pytest.mark.parametrize("kib", [2, 20, 60, 200])
def test_the_first_records_need_2_mib_at_most_and_few_requests_however_small_batches_are(
    kib: int, tmp_path: Path
) -> None:
    part = pa.record_batch({"text": ["words " * 330] * (kib // 2)})
    file, remote = remote_file(tmp_path, written([part] * (3_000 // kib), pa.ipc.new_stream))
    assert isinstance(file, ArrowBatchFile)
    assert len(list(file.records(file.segment(0, 0).places, ("image",)))) > 300
    assert fetched(remote) <= 2 * MIB
    assert len(remote.gets) <= 8


def test_files_with_dictionaries_and_old_files_are_read_as_a_whole(tmp_path: Path) -> None:
    words = pa.array(["a", "b", None] * 200_000).dictionary_encode()
    nested = pa.StructArray.from_arrays([words], ["word"])
    kinds = {
        "old": written(batches([200, 40]), pa.ipc.new_stream, use_legacy_format=True),
        "dictionary": written([pa.record_batch({"word": words})], pa.ipc.new_stream),
        "nested": written([pa.record_batch({"it": nested})], pa.ipc.new_file),
    }
    for name, data in kinds.items():
        (tmp_path / name).mkdir()
        file, _ = remote_file(tmp_path / name, data)
        assert isinstance(file, ArrowTableFile), name
        first = segments(file)[0][1].tolist()
        assert file.load(tuple(first))


@pytest.mark.parametrize("more", [b"\0", b"\0" * 8, b"\0" * 100, b"again"], ids=["1", "8", "100", "a second stream"])
def test_a_stream_ends_at_its_end_mark_whatever_follows(more: bytes, tmp_path: Path) -> None:
    data = written(batches([3, 2]), pa.ipc.new_stream)
    file = local_file(tmp_path, data + (data if more == b"again" else more))
    first = file.segment(0, 0)
    assert first.mark is not None
    assert file.segment(1, first.mark).mark is None
    assert loaded(file) == pa.Table.from_batches(batches([3, 2])).to_pylist()


def test_bytes_between_the_end_mark_and_the_footer_of_a_file_are_skipped_if_they_are_too_few_for_a_batch(
    tmp_path: Path,
) -> None:
    data = written(batches([3]), pa.ipc.new_file)
    footer = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    file = local_file(tmp_path, data[:footer] + b"\0" * 4 + data[footer:])
    assert loaded(file) == pa.Table.from_batches(batches([3])).to_pylist()


def test_columns_whose_lengths_are_in_their_bytes_are_checked_when_those_are_there(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([500, 900], pa.int32()), pa.array(["a", None]))
    part = pa.record_batch({"runs": runs, "text": ["words " * 300] * 900})
    file, _ = remote_file(tmp_path, written([part], pa.ipc.new_stream))
    assert isinstance(file, ArrowBatchFile)
    assert list(file.records(segments(file)[0], ())) == part.to_pylist()


@pytest.mark.parametrize("options", [{}, {"use_legacy_format": True}], ids=["batches", "whole"])
def test_a_damaged_record_is_an_error_also_where_no_index_has_read_it(options: dict[str, Any], tmp_path: Path) -> None:
    part = pa.record_batch({"text": [f"What is {number}?" for number in range(1_000)]})
    data = bytearray(written([part], pa.ipc.new_stream, **options))
    offsets = data.find(part.column("text").buffers()[1].to_pybytes()[:4_000])
    data[offsets + 4 * 400 : offsets + 4 * 401] = (2**31 - 16).to_bytes(4, "little")
    file = local_file(tmp_path, bytes(data))
    assert isinstance(file, ArrowTableFile if options else ArrowBatchFile)
    places = [tuple(place) for place in segments(file)[0].tolist()]
    for number in (399, 400):
        with pytest.raises(ContentError, match="damaged"):
            file.load(places[number])


@pytest.mark.parametrize("options", [{}, {"use_legacy_format": True}], ids=["batches", "whole"])
def test_a_value_that_python_has_no_object_for_is_an_error_that_names_the_file(
    options: dict[str, Any], tmp_path: Path
) -> None:
    part = pa.record_batch({"time": pa.array([datetime.datetime(2000, 1, 1), 1 << 60], pa.timestamp("s"))})
    file = local_file(tmp_path, written([part], pa.ipc.new_stream, **options))
    [places] = segments(file)
    assert file.load(tuple(places[0].tolist())) == {"time": datetime.datetime(2000, 1, 1)}
    with pytest.raises(ContentError, match=r"rows\.arrow: is .*damaged"):
        file.load(tuple(places[1].tolist()))
    with pytest.raises(ContentError, match=r"rows\.arrow: is .*damaged"):
        list(file.records(places, ()))


def test_a_local_file_that_is_replaced_between_its_index_and_its_first_record_is_an_error(tmp_path: Path) -> None:
    file = local_file(tmp_path, written(batches([3]), pa.ipc.new_stream))
    [places] = segments(file)
    (tmp_path / "new").write_bytes(written(batches([3]), pa.ipc.new_stream))
    os.replace(tmp_path / "new", tmp_path / "rows.arrow")
    with pytest.raises(ObjectChanged, match="was replaced during the run"):
        file.load(tuple(places[0].tolist()))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_truncated_file_is_an_error_or_ends_where_a_stream_may_end(writer: str, tmp_path: Path) -> None:
    data = written(batches([60] * 8), WRITERS[writer])
    whole, _ = remote_file(tmp_path, data)
    starts = [int(places[0, 0]) for places in segments(whole) if len(places)]
    assert len(starts) > 1
    for number, cut in enumerate([starts[-1], starts[-1] + 4, starts[-1] + 100, starts[-1] + 10_000, len(data) - 2]):
        file, _ = remote_file(tmp_path, data[:cut], str(number))
        if writer == "stream" and cut == starts[-1]:
            assert len(np.concatenate(segments(file))) < 480
        else:
            with pytest.raises(ContentError, match="damaged"):
                segments(file)


def test_damaged_metadata_is_an_error_and_never_another_number_of_rows(tmp_path: Path) -> None:
    data = written(batches([200, 40]), pa.ipc.new_stream)
    whole, _ = remote_file(tmp_path, data)
    assert isinstance(whole, ArrowBatchFile)
    first = whole._head.first
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(25):
        changed = bytearray(data)
        for at in (first + rng.integers(0, 200, 8)).tolist():
            changed[at] = int(rng.integers(256))
        file, _ = remote_file(tmp_path, bytes(changed), str(number))
        try:
            assert len(loaded(file)) == 240
        except ContentError:
            refused += 1
    assert refused > 15
