"""Samples of a tar shard as records, segment by segment: the same ones, wherever a segment ends."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from penstock.media.content import content
from penstock.readers.errors import ContentError
from penstock.readers.ranges import Ranges
from penstock.readers.records.files.filebytes import StoredBytes
from penstock.readers.records.files.recordfile import BadRecord
from penstock.readers.records.files.tarrecords import TarRecords
from penstock.store.local import LocalStore
from tests.readers.records.files.reading import segments

MIB = 1 << 20


def shard(folder: Path, files: dict[str, bytes], format: int = tarfile.PAX_FORMAT) -> TarRecords:
    with tarfile.open(folder / "a.tar", "w", format=format) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return opened(folder)


def opened(folder: Path) -> TarRecords:
    store = LocalStore(folder)
    return TarRecords(StoredBytes("a.tar", Ranges(lambda: store)))


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_segments_grow_and_miss_no_sample(tmp_path: Path, format: int) -> None:
    files: dict[str, bytes] = {}
    folder = "a-long-name" * 8 if format == tarfile.USTAR_FORMAT else "a-very-long-name" * 20
    for number in range(24):
        files[f"{folder}/.hidden{number}.txt"] = b"hidden"
        files[f"{folder}/{number}.json"] = json.dumps({"n": number}).encode()
        files[f"{folder}/{number}.jpg"] = bytes([number]) * (MIB // 2 + number)
        files[f"{folder}/{number}.txt"] = f"text {number}".encode()
    file = shard(tmp_path, files, format)
    found = segments(file)
    assert [len(places) for places in found] == [2, 4, 8, 10]
    records = [file.load((start, end)) for places in found for start, end in places.tolist()]
    assert [record["n"] for record in records] == list(range(24))
    assert [record["txt"] for record in records] == [f"text {number}" for number in range(24)]
    assert [record["image"]["bytes"] for record in records] == [files[f"{folder}/{n}.jpg"] for n in range(24)]
    assert records[7]["__key__"] == f"{folder}/7"


def test_an_index_reads_media_only_when_asked_and_a_run_does(tmp_path: Path) -> None:
    file = shard(tmp_path, {"a.jpg": b"bytes", "a.json": b'{"q": 1}', "b.json": b"[1]", "b.wav": b"x"})
    [places] = segments(file)
    first, second = file.records(places, ())
    assert isinstance(first, dict) and first["jpg"] == first["image"]
    medium = first["image"]
    assert {**first, "jpg": None, "image": None} == {"__key__": "a", "jpg": None, "image": None, "q": 1}
    assert medium["path"] == "a.jpg" and not isinstance(medium["bytes"], bytes) and content(medium) == b"bytes"
    assert isinstance(second, BadRecord) and str(second) == "not a JSON object"
    assert file.load((0, int(places[0, 1])))["image"]["bytes"] == b"bytes"


def test_several_json_files_of_a_sample_are_joined(tmp_path: Path) -> None:
    files = {"a.json": b'{"q": 1, "both": [2]}', "a.more.json": b'{"both": [2], "r": 3}', "a.txt": b"t"}
    [places] = segments(file := shard(tmp_path, files))
    assert list(file.records(places, ())) == [{"__key__": "a", "q": 1, "both": [2], "r": 3, "txt": "t"}]


@pytest.mark.parametrize(
    "files",
    [
        {"a.json": b'{"q": 1}', "a.more.json": b'{"q": 2}'},
        {"a.more.json": b'{"q": 2}', "a.json": b'{"q": 1}'},
        {"a.json": b'{"image": "x.jpg"}', "a.jpg": b"x", "a.more.json": b'{"image": "y.jpg"}'},
        {"a.txt": b"one", "a.json": b'{"txt": "other"}'},
        {"a.json": b'{"txt": "other"}', "a.txt": b"one"},
    ],
    ids="-".join,
)
def test_files_of_a_sample_that_contradict_each_other_make_a_bad_record(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    good = {"b.json": b'{"q": 1}'}
    [places] = segments(file := shard(tmp_path, {**files, **good}))
    bad, other = file.records(places, ())
    assert isinstance(bad, BadRecord) and str(bad).startswith("two files of a sample have different values of '")
    assert other == {"__key__": "b", "q": 1}


@pytest.mark.parametrize("order", [1, -1])
def test_a_key_of_json_comes_before_the_kind_of_a_medium(tmp_path: Path, order: int) -> None:
    files = [("a.jpg", b"x"), ("a.json", b'{"image": "x.jpg"}')][::order]
    [places] = segments(file := shard(tmp_path, dict(files)))
    [record] = file.records(places, ())
    assert isinstance(record, dict) and set(record) == {"__key__", "image", "jpg"}
    assert record["image"] == "x.jpg" and record["jpg"]["path"] == "a.jpg"


def test_small_samples_are_in_few_segments(tmp_path: Path) -> None:
    file = shard(tmp_path, {f"{number}.txt": b"" for number in range(5_000)})
    assert [len(places) for places in segments(file)] == [2_048, 2_952]


def test_a_shard_that_is_cut_short_is_an_error_in_the_segment_that_comes_to_it(tmp_path: Path) -> None:
    shard(tmp_path, {f"{number}.txt": bytes(MIB) for number in range(4)})
    data = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(data[: 3 * MIB])
    file = opened(tmp_path)
    first = file.segment(0, 0)
    assert len(first.places) == 1
    with pytest.raises(ContentError, match="is cut short"):
        file.segment(1, first.mark or 0)
