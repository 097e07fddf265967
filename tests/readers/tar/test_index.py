"""Tar shards become a manifest that knows every member, or one message that tells all that is wrong."""

import hashlib
import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from penstock.manifest.errors import ManifestError
from penstock.media.audio.wav import wav_bytes
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.layout import Shard
from penstock.store.local import LocalStore
from tests.readers.tar.archives import write_tar
from tests.readers.tar.records import read_record, reader_of


def a_wav(seconds: float) -> bytes:
    return wav_bytes(np.zeros(round(16_000 * seconds), np.float32), 16_000)


def facts(**values: object) -> bytes:
    return json.dumps(values).encode()


def test_every_member_has_its_place_size_and_checksum(tmp_path: Path) -> None:
    files = {f"clip{n}.{ext}": f"{n}{ext}".encode() * (n * 1000 + 1) for n in range(30) for ext in ("flac", "txt")}
    path = write_tar(tmp_path / "en" / "0.tar", files.items())
    manifest = index_shards(LocalStore(tmp_path), ["en/0.tar"], tmp_path / "out")
    data = path.read_bytes()
    assert manifest.indexed and manifest.sources == ("en",) and manifest.amounts["hours"] == (0,)
    assert manifest.ids(range(30)) == [f"clip{n}" for n in range(30)], "in byte order"
    for row in range(30):
        for member in manifest.members(row)[0]:
            bytes_there = data[member.offset : member.offset + member.size]
            assert bytes_there == files[f"clip{row}.{member.ext}"]
            assert zlib.crc32(bytes_there) == member.crc
    blob = LocalStore(tmp_path).open("en/0.tar")
    assert manifest.shard(0) == Shard("en/0.tar", len(data), blob.stamp)
    blob.close()


def test_the_sha256_of_every_member_is_recorded_if_asked_for(tmp_path: Path) -> None:
    files = {f"clip{n}.{ext}": f"{n}{ext}".encode() for n in range(300) for ext in ("flac", "txt")}
    write_tar(tmp_path / "en" / "0.tar", files.items())
    plain = index_shards(LocalStore(tmp_path), ["en/0.tar"], tmp_path / "plain")
    hashed = index_shards(LocalStore(tmp_path), ["en/0.tar"], tmp_path / "hashed", sha256=True)
    assert hashed.hashed and not plain.hashed
    assert hashed.fingerprints == plain.fingerprints, "the order does not depend on it"
    assert hashed.members(range(300)) == plain.members(range(300))
    assert hashed.contents(range(300), sha256=False) == plain.contents(range(300), sha256=False)
    flac, txt = (hashlib.sha256(files[f"clip7.{ext}"]).hexdigest() for ext in ("flac", "txt"))
    assert hashed.contents([7], sha256=True) == [f"flac:{flac},txt:{txt}"]
    assert plain.contents([7], sha256=False) == [f"flac:{zlib.crc32(b'7flac'):08x},txt:{zlib.crc32(b'7txt'):08x}"]


def test_source_and_duration_come_from_the_json_then_the_folder_and_the_wav(tmp_path: Path) -> None:
    write_tar(
        tmp_path / "hindi" / "0.tar",
        [
            ("a.json", facts(language="tamil", duration=1.25)),
            ("a.wav", a_wav(3)),
            ("b.wav", a_wav(0.5)),
            ("c.json", facts(duration=2)),
            ("d.json", facts(language="odia")),
            ("d.wav", a_wav(4)),
            ("e.txt", b"no duration"),
        ],
    )
    write_tar(tmp_path / "1.tar", [("f.wav", a_wav(1))])
    manifest = index_shards(LocalStore(tmp_path), ["hindi/0.tar", "1.tar"], tmp_path / "out")
    assert manifest.sources == ("default", "hindi", "odia", "tamil")
    assert manifest.amounts["hours"] == (1_000_000, 2_500_000, 4_000_000, 1_250_000)
    assert manifest.ids(range(6)) == ["f", "b", "c", "e", "d", "a"]


def test_members_larger_than_the_window_are_read_in_pieces(tmp_path: Path) -> None:
    large = bytes(range(256)) * 80_000
    write_tar(tmp_path / "en" / "0.tar", [("a.bin", large), ("a.json", facts(duration=1)), ("b.bin", large[::-1])])
    manifest = index_shards(LocalStore(tmp_path), ["en/0.tar"], tmp_path / "out")
    assert [member.crc for row in range(2) for member in manifest.members(row)[0] if member.ext == "bin"] == [
        zlib.crc32(large),
        zlib.crc32(large[::-1]),
    ]
    assert manifest.amounts["hours"] == (1_000_000,)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    write_tar(tmp_path / "en" / "good.tar", [("a.txt", b"")])
    write_tar(tmp_path / "en" / "twice.tar", [("a.txt", b""), ("b.txt", b""), ("a.wav", b"")])
    write_tar(tmp_path / "en" / "adjacent.tar", [("a.txt", b""), ("a.txt", b""), ("b.txt", b"")])
    odd = [("d.json", b"[" * 100_000), ("e.json", b'{"duration": 1' + b"0" * 400 + b"}")]
    odd += [("a.json", b"{"), ("b.json", facts(duration=-1)), ("c.json", b"{}")]
    write_tar(tmp_path / "en" / "json.tar", odd)
    write_tar(tmp_path / "en" / "name.tar", [("\udcff.txt", b"")])
    (tmp_path / "en" / "cut.tar").write_bytes((tmp_path / "en" / "twice.tar").read_bytes()[:700])
    paths = [f"en/{name}.tar" for name in ("good", "twice", "adjacent", "json", "name", "cut", "missing")]
    with pytest.raises(ManifestError) as caught:
        index_shards(LocalStore(tmp_path), paths, tmp_path / "out")
    message = str(caught.value)
    assert caught.value.counts == {"broken shard": 1, "unreadable shard": 1, "sample": 5, "duplicate": 2}
    for part in (
        "en/cut.tar: is cut short",
        "en/json.tar:a: .json: ",
        "en/json.tar:b: a duration of -1",
        "en/json.tar:d: .json: nested too deeply",
        "en/json.tar:e: .json: duration is a number with hundreds of digits",
        f"en/missing.tar: {tmp_path}/en/missing.tar: no such file",
        "en/adjacent.tar:a: 2 samples with this key",
        "its name is not UTF-8",
        "en/twice.tar:a: 2 samples with this key",
    ):
        assert part in message
    assert not (tmp_path / "out").exists()


def test_a_filelist_says_which_samples_in_which_order_and_what_they_are(tmp_path: Path) -> None:
    for shard in ("en/0.tar", "en/1.tar"):
        write_tar(tmp_path / shard, [(f"{clip}.wav", f"{shard}{clip}".encode()) for clip in "abcd"])
    (tmp_path / "train.tsv").write_text("en/1.tar\td\tmixed\t2\nen/1.tar\ta\tmixed\t1\n")
    store = LocalStore(tmp_path)
    manifest = index_shards(store, ["en/0.tar", "en/1.tar"], tmp_path / "out", filelist=tmp_path / "train.tsv")
    assert manifest.sources == ("mixed",) and manifest.amounts["hours"] == (3_000_000,)
    assert manifest.shard_paths() == ["en/1.tar"]
    reader = reader_of(store, manifest)
    assert [read_record(reader, manifest, row) for row in range(2)] == [{"wav": b"en/1.tard"}, {"wav": b"en/1.tara"}]


def test_what_the_filelist_names_and_the_shards_lack_is_told(tmp_path: Path) -> None:
    write_tar(tmp_path / "en" / "0.tar", [("a.wav", b""), ("b.wav", b""), ("a.txt", b""), ("c.json", b"{")])
    filelist = tmp_path / "train.tsv"
    store = LocalStore(tmp_path)
    filelist.write_text("en/0.tar\ta\ten\t1\nen/0.tar\tz\ten\t1\nen/0.tar\tc\ten\t1\n")
    with pytest.raises(ManifestError) as caught:
        index_shards(store, ["en/0.tar"], tmp_path / "out", filelist=filelist)
    assert [problem.where for problem in caught.value.problems] == ["en/0.tar:a", "en/0.tar:z"]
    filelist.write_text("en/O.tar\ta\ten\t1\n")
    with pytest.raises(ManifestError, match=r"train.tsv:1: there is no shard en/O.tar; the nearest is en/0.tar"):
        index_shards(store, ["en/0.tar"], tmp_path / "out", filelist=filelist)


def test_progress_counts_shards_and_bytes(tmp_path: Path) -> None:
    paths = [f"en/{number}.tar" for number in range(5)]
    sizes = [write_tar(tmp_path / path, [("a.txt", b"")]).stat().st_size for path in paths]
    told: list[tuple[int, int, int]] = []
    index_shards(LocalStore(tmp_path), paths, tmp_path / "out", progress=lambda *what: told.append(what))
    assert told == [(done, 5, sum(sizes[:done])) for done in range(1, 6)]


def test_shards_without_samples_are_left_out_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    write_tar(tmp_path / "empty.tar", [("README", b"")])
    write_tar(tmp_path / "full.tar", [("a.txt", b"")])
    manifest = index_shards(LocalStore(tmp_path), ["empty.tar", "full.tar"], tmp_path / "out")
    assert manifest.shard_paths() == ["full.tar"]
    with pytest.raises(ManifestError, match="no samples"):
        index_shards(LocalStore(tmp_path), ["empty.tar"], tmp_path / "none")
