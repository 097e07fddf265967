import dataclasses
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from penstock.curate.speech.measure import MeasureShard, measure_shard
from penstock.curate.speech.measured import Measured, MeasuredFolder, table_bytes
from penstock.media.audio.clip import EXTENSIONS
from penstock.media.audio.quality import measure
from penstock.media.span import InMemory
from penstock.readers.errors import ContentError
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.shardreader import SPAN
from penstock.recipes.speech import Speech
from penstock.recipes.whole_speech import WholeSpeech
from penstock.store.local import LocalBlob, LocalStore
from tests.curate.speech.corpora import corpus, files, tone, wav
from tests.readers.tar.archives import write_tar
from tests.same_stat import overwrite_keeping_stat

CLIP = wav(tone(1))


def measured(path: Path, name: str = "hindi/a.tar") -> Measured:
    blob = LocalBlob(path)
    try:
        return measure_shard(blob, name)
    finally:
        blob.close()


def problems(path: Path) -> dict[str, tuple[str, str]]:
    rows = measured(path).clips.to_pylist()
    return {row["id"]: (row["problem"], row["why"]) for row in rows if row["problem"]}


def test_every_clip_gets_its_quality_and_its_language(tmp_path):
    sounds = {"a": tone(1), "b": tone(2, noise=0.1), "c": tone(3, level=3)}
    shard = write_tar(
        tmp_path / "a.tar", [file for name in sounds for file in files(name, wav(sounds[name]), {"language": "odia"})]
    )
    rows = measured(shard).clips.to_pylist()
    assert [row["id"] for row in rows] == list(sounds)
    for row in rows:
        expected = dataclasses.asdict(measure(InMemory(wav(sounds[row["id"]]))))
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-6)
        assert row["language"] == "odia"


def test_without_a_language_it_is_the_folder_of_the_shard(tmp_path):
    shard = write_tar(tmp_path / "a.tar", files("a", CLIP))
    assert measured(shard, "x/hindi/a.tar").clips.column("language").to_pylist() == ["hindi"]
    assert measured(shard, "a.tar").clips.column("language").to_pylist() == ["default"]


def test_places_and_checksums_are_those_of_an_index(tmp_path):
    members = [*files("a", CLIP, {}), ("a.txt", b"text"), ("hidden", b"x"), *files("b", CLIP, {"x": 1})]
    write_tar(tmp_path / "hindi" / "a.tar", members)
    manifest = index_shards(LocalStore(tmp_path), ["hindi/a.tar"], tmp_path / "index")
    rows = measured(tmp_path / "hindi" / "a.tar").clips.to_pylist()
    for number, row in enumerate(rows):
        assert row["members"] == [member._asdict() for member in manifest.members(number)[0]]


def test_what_is_wrong_with_a_sample_is_told_and_the_rest_is_measured(tmp_path):
    members = [
        *files("good", CLIP),
        *files("noise", b"this is no audio"),
        *files("cut", CLIP[:1000]),
        ("silent.txt", b"words only"),
        ("odd.wav", CLIP),
        ("odd.json", b"{not json"),
        *files("tongue", CLIP, {"language": "a\tb"}),
        *files("lone", CLIP, {"language": "\ud800"}),
        *files("tab\there", CLIP),
        *files("twice", CLIP),
        *files("between", CLIP),
        *files("twice", CLIP),
        *files("adjacent", CLIP, {}),
        *files("adjacent", CLIP, {}),
        ("deep.wav", CLIP),
        ("deep.json", b"[" * 100_000),
        ("long.wav", CLIP),
        ("long.json", b'{"duration": 1' + b"0" * 400 + b"}"),
        *files("last", CLIP),
    ]
    found = problems(write_tar(tmp_path / "a.tar", members))
    kinds = {name: kind for name, (kind, _) in found.items()}
    assert kinds == {
        **dict.fromkeys(("noise", "cut", "silent"), "audio"),
        **dict.fromkeys(("odd", "tongue", "lone", "deep", "long"), "json"),
        **dict.fromkeys(("tab\there", "twice", "adjacent"), "name"),
    }
    assert "truncated" in found["cut"][1]


def test_a_name_that_is_not_utf_8_is_told_in_ascii(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w", encoding="latin-1", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("caf\xe9.wav"))
    assert problems(tmp_path / "a.tar")["'caf\\udce9'"][0] == "name"


def test_a_broken_archive_is_an_error(tmp_path):
    shard = write_tar(tmp_path / "a.tar", files("a", CLIP))
    shard.write_bytes(shard.read_bytes()[:20_000])
    with pytest.raises(ContentError, match="cut short"):
        measured(shard)


def test_no_byte_of_a_shard_is_read_twice_and_files_across_two_reads_are_whole(tmp_path):
    long = wav(tone(100))
    shard = write_tar(tmp_path / "a.tar", [file for name in "abcd" for file in files(name, long, {})])

    class Counting(LocalBlob):
        read = 0

        def readinto(self, buffer, offset):
            self.read += len(buffer)
            super().readinto(buffer, offset)

    blob = Counting(shard)
    rows = measure_shard(blob, "a.tar").clips.to_pylist()
    assert SPAN < blob.read <= blob.size
    assert [row["problem"] for row in rows] == [None] * 4
    assert [row["members"][0]["crc"] for row in rows] == [zlib.crc32(long)] * 4
    blob.close()


def test_tables_come_back_as_they_were_and_only_for_that_version(tmp_path):
    _, paths = corpus(tmp_path, shards=1)
    blob = LocalBlob(tmp_path / paths[0])
    table = measure_shard(blob, paths[0])
    folder = MeasuredFolder(tmp_path, "here")
    folder.keep(paths[0], blob.version, table_bytes(table, blob.digest()))
    for back in (folder.load(paths[0], blob.version), folder.load_of(paths[0], blob)):
        assert back is not None and back.shard == table.shard and back.clips.equals(table.clips)
    assert folder.load(paths[0], "another") is None
    assert folder.load("another.tar", blob.version) is None
    assert MeasuredFolder(tmp_path, "elsewhere").load(paths[0], blob.version) is None


def test_a_digest_tells_a_shard_made_anew_from_one_whose_permissions_changed(tmp_path):
    _, paths = corpus(tmp_path, shards=1)
    path = tmp_path / paths[0]
    folder = MeasuredFolder(tmp_path / "measured", "here")
    made = MeasureShard(LocalStore(tmp_path))(paths[0])
    folder.keep(paths[0], made.version, made.content)
    path.chmod(0o600)
    back = folder.load_of(paths[0], LocalBlob(path))
    assert back is not None and back.shard.version == LocalBlob(path).stamp
    assert folder.load(paths[0], LocalBlob(path).version).shard == back.shard
    data = path.read_bytes()
    overwrite_keeping_stat(path, bytes([*data[:5_000], data[5_000] ^ 1, *data[5_001:]]))
    assert folder.load_of(paths[0], LocalBlob(path)) is None


def test_a_table_that_was_damaged_is_taken_for_absent(tmp_path):
    _, paths = corpus(tmp_path, shards=1)
    blob = LocalBlob(tmp_path / paths[0])
    folder = MeasuredFolder(tmp_path / "measured", "here")
    folder.keep(paths[0], blob.version, table_bytes(measure_shard(blob, paths[0]), blob.digest()))
    (file,) = (tmp_path / "measured").glob("[!.]*")
    whole = file.read_bytes()
    for at in np.linspace(0, len(whole) - 1, 20, dtype=int).tolist():
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            file.write_bytes(damaged)
            assert folder.load(paths[0], blob.version) is None


def test_what_counts_as_audio_is_what_the_recipe_reads():
    assert EXTENSIONS == Speech.needs == WholeSpeech().needs
