"""Evaluation data out of WebDataset shards, in a folder and in a bucket."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from penstock.curate.speech.evaluation.build import build_evaluation
from penstock.curate.speech.evaluation.candidates import Candidate
from penstock.curate.speech.evaluation.destination import open_destination
from penstock.curate.speech.evaluation.shards import shard_candidates
from penstock.manifest.errors import ManifestError
from penstock.runtime.engines.engine import ThreadEngine
from penstock.runtime.engines.local import LocalEngine
from penstock.store.blob import Store
from penstock.store.local import LocalStore
from penstock.store.remote.direct import DirectStore
from tests.curate.speech.corpora import tone, wav
from tests.curate.speech.evaluations import files_of, speech
from tests.media.audio.clips import encode
from tests.readers.tar.archives import write_tar

SOUND = wav(tone(0.2))


def candidates(store: Store, paths: list[str], language: str | None = None) -> list[Candidate]:
    with TemporaryDirectory() as folder:
        return list(shard_candidates(store, paths, Path(folder), ThreadEngine(2), language))


@pytest.fixture
def shards(tmp_path: Path) -> tuple[LocalStore, list[str]]:
    """A sample with .json, one with .txt, one with neither, one without audio, in the folder of another language."""
    flac = encode(speech(1), 16_000, "FLAC")
    write_tar(
        tmp_path / "odia" / "s0.tar",
        [
            ("a.wav", SOUND),
            ("a.json", json.dumps({"language": "hindi", "transcription": "said so"}).encode()),
            ("b.flac", flac),
            ("b.txt", "\ufeff written \n".encode()),
            ("c.wav", SOUND),
            ("d.txt", b"no audio"),
        ],
    )
    write_tar(tmp_path / "odia" / "s1.tar", [("c.wav", SOUND)])
    return LocalStore(tmp_path), ["odia/s1.tar", "odia/s0.tar"]


def test_samples_tell_their_language_and_what_is_said(shards: tuple[LocalStore, list[str]]) -> None:
    found = candidates(*shards)
    assert [(one.source, one.name, one.language) for one in found] == [
        ("odia/s0.tar", "a", "hindi"),
        ("odia/s0.tar", "b", "odia"),
        ("odia/s0.tar", "c", "odia"),
        ("odia/s1.tar", "c", "odia"),
    ]
    assert [one.read().transcription for one in found] == ["said so", "written", None, None]
    assert [one.read().audio for one in found] == [SOUND, encode(speech(1), 16_000, "FLAC"), SOUND, SOUND]
    assert [one.size for one in found] == [len(one.read().audio) for one in found]
    assert {one.language for one in candidates(*shards, language="tamil")} == {"tamil"}


def test_a_bucket_gives_the_same(shards: tuple[LocalStore, list[str]], s3) -> None:
    store, paths = shards
    for path in paths:
        s3.put(path, (store.root / path).read_bytes())
    remote = DirectStore(s3.remote())
    for near, far in zip(candidates(store, paths), candidates(remote, paths), strict=True):
        assert (near.source, near.name, near.language, near.size) == (far.source, far.name, far.language, far.size)
        assert near.read() == far.read()


def test_processes_build_from_a_bucket_what_a_thread_builds_from_files(
    shards: tuple[LocalStore, list[str]], tmp_path: Path, s3
) -> None:
    store, paths = shards
    for path in paths:
        s3.put(path, (store.root / path).read_bytes())
    for name, each, engine in (("one", store, ThreadEngine(1)), ("two", DirectStore(s3.remote()), LocalEngine(2))):
        with open_destination(str(tmp_path / name)) as out:
            build_evaluation(shard_candidates(each, paths, tmp_path / f"{name}.clips", engine), out, engine)
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
    assert len(files_of(tmp_path / "two")) == 2 + 3


def test_a_json_that_is_none_names_its_sample(tmp_path: Path) -> None:
    write_tar(tmp_path / "s.tar", [("a.wav", SOUND), ("a.json", b"{")])
    with pytest.raises(ManifestError, match=r"s\.tar:a: \.json: "):
        candidates(LocalStore(tmp_path), ["s.tar"])


def test_a_shard_is_read_once_until_it_changes_or_its_list_is_damaged(
    shards: tuple[LocalStore, list[str]], tmp_path: Path
) -> None:
    store, paths = shards
    first = list(shard_candidates(store, paths, tmp_path / "clips", ThreadEngine(1)))
    tasks: list[str] = []

    class Watched(ThreadEngine):
        def map(self, work, given):
            return super().map(work, [tasks.append(each) or each for each in given])

    def again() -> list[Candidate]:
        tasks.clear()
        return list(shard_candidates(store, paths, tmp_path / "clips", Watched(1)))

    assert [one.name for one in again()] == [one.name for one in first] and not tasks
    write_tar(tmp_path / "odia" / "s1.tar", [("new.wav", SOUND)])
    assert [one.name for one in again()] == ["a", "b", "c", "new"] and tasks == ["odia/s1.tar"]
    for kept in (tmp_path / "clips").iterdir():
        kept.write_bytes(kept.read_bytes()[:-9])
    assert [one.name for one in again()] == ["a", "b", "c", "new"] and tasks == ["odia/s0.tar", "odia/s1.tar"]
