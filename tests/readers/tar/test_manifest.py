"""Looking things up in an open manifest."""

import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.manifest.errors import ManifestError
from penstock.readers.tar.filelist import compile_filelist
from penstock.readers.tar.layout import MEMBER, Member, Shard
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.writer import ItemTable, Members, write_manifest


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> TarManifest:
    folder = tmp_path_factory.mktemp("reader")
    lines = [f"{n % 7}.tar\tclip{n // 7}\t{'aab'[n % 3]}\t{1 + n / 8}\n" for n in range(500)]
    (folder / "train.tsv").write_text("".join(lines))
    return compile_filelist(folder / "train.tsv", folder / "out")


def test_a_group_is_the_clips_of_one_source_in_one_shard(manifest: TarManifest) -> None:
    rows = np.arange(len(manifest))
    source, group, item = manifest.locate(rows)
    assert manifest.rows(source, group, item).tolist() == rows.tolist()
    for row, number, place in zip(rows.tolist(), source.tolist(), group.tolist(), strict=True):
        shard = manifest.shard(manifest.shard_of(row))
        assert manifest.shard_of_group(number, place) == shard
        assert manifest.group_name(number, place) == shard.path
    for number in range(len(manifest.sources)):
        sizes = manifest.group_sizes(number)
        assert sizes.tolist() == np.bincount(group[source == number]).tolist()
        assert sizes.sum() == manifest.items[number]


def test_columns_are_taken_in_the_order_asked(manifest: TarManifest) -> None:
    rows = [400, 3, 3]
    assert manifest.ids(rows) == [manifest.ids(row)[0] for row in rows]
    assert manifest.seconds(rows).tolist() == [float(manifest.seconds(row)) for row in rows]


def test_an_id_that_is_in_many_shards_is_found_in_each(manifest: TarManifest) -> None:
    rows = manifest.find("clip3")
    assert manifest.ids(rows) == ["clip3"] * 7
    assert sorted(manifest.shard(number).path for number in manifest.shard_of(rows)) == [f"{n}.tar" for n in range(7)]
    (row,) = manifest.find("4.tar:clip3")
    assert manifest.shard(manifest.shard_of(row)).path == "4.tar"
    assert manifest.find("clip") == manifest.find("8.tar:clip3") == manifest.find("") == []


COLONS = st.text("a:", min_size=1, max_size=4)


@settings(max_examples=80, deadline=None)
@given(st.sets(st.tuples(COLONS, COLONS), min_size=1, max_size=10), st.text("a:", max_size=7))
def test_colons_in_shards_and_ids_hide_nothing(
    tmp_path_factory: pytest.TempPathFactory, clips: set[tuple[str, str]], asked: str
) -> None:
    folder = tmp_path_factory.mktemp("colons")
    (folder / "train.tsv").write_text("".join(f"{shard}\t{name}\ten\t1\n" for shard, name in clips))
    manifest = compile_filelist(folder / "train.tsv", folder / "out")
    rows = manifest.find(asked)
    found = {
        (manifest.shard(number).path, name)
        for number, name in zip(manifest.shard_of(rows), manifest.ids(rows), strict=True)
    }
    assert found == {(s, name) for s, name in clips if asked in (name, f"{s}:{name}")}


def test_members_come_back_and_a_plain_manifest_says_that_it_has_none(tmp_path: Path, manifest: TarManifest) -> None:
    places = [[(1, 512, 10, 7), (0, 2048, 3, 2**32 - 1)], [], [(0, 2**40, 2**33, 0)]]
    column = pa.array(
        [[dict(zip(("ext", "offset", "size", "crc"), place, strict=True)) for place in item] for item in places],
        type=pa.large_list(MEMBER),
    )
    ids = pa.array(["x", "y", "z"], type=pa.large_string())
    zeros = np.zeros(3, dtype=np.int32)
    shards = [Shard("a.tar", 2**41, "v1")]
    write_manifest(
        ItemTable(ids, np.ones(3), zeros, zeros, shards, ["en"], Members(column, ["json", "wav"])), tmp_path / "out"
    )
    indexed = TarManifest(tmp_path / "out")
    assert indexed.indexed and indexed.shard(0) == shards[0]
    first = (Member("wav", 512, 10, 7), Member("json", 2048, 3, 2**32 - 1))
    last = (Member("json", 2**40, 2**33, 0),)
    assert indexed.members([2, 0, 1]) == [last, first, ()]
    assert [len(found) for found in indexed.members(range(3), ["wav", "flac"])] == [1, 0, 0]
    assert indexed.members(0, ["json"]) == [first[1:]]
    with pytest.raises(ManifestError, match="made from a filelist"):
        manifest.members(0)


def test_another_process_gets_the_path_and_not_a_copy(manifest: TarManifest) -> None:
    pickled = pickle.dumps(manifest)
    assert len(pickled) < 1000
    assert pickle.loads(pickled).ids([5, 7]) == manifest.ids([5, 7])


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no compiled manifest here"):
        TarManifest(tmp_path / "nowhere")
    (tmp_path / "train.tsv").write_text("a.tar\tone\ten\t1\n")
    out = compile_filelist(tmp_path / "train.tsv", tmp_path / "out").path
    whole = (out / "items.arrow").read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"x" * len(whole)):
        (out / "items.arrow").write_bytes(damaged)
        with pytest.raises(ManifestError, match=r"items.arrow: (not readable|has .* bytes, but|damaged)"):
            TarManifest(out)
    (out / "items.arrow").unlink()
    with pytest.raises(ManifestError, match=r"items.arrow"):
        TarManifest(out)
    facts = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(facts | {"version": 99}))
    with pytest.raises(ManifestError, match="version 99"):
        TarManifest(out)


def test_files_of_two_manifests_do_not_open_as_one(tmp_path: Path) -> None:
    for name, count in (("a", 1), ("b", 2)):
        (tmp_path / "train.tsv").write_text("".join(f"a.tar\t{number}\ten\t1\n" for number in range(count)))
        compile_filelist(tmp_path / "train.tsv", tmp_path / name)
    (tmp_path / "a" / "items.arrow").write_bytes((tmp_path / "b" / "items.arrow").read_bytes())
    with pytest.raises(ManifestError, match=r"items.arrow: (damaged|has .* bytes, but)"):
        TarManifest(tmp_path / "a")
