"""Evaluation data: what is in it, that it is the same bytes every time, and that it goes on after a kill."""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from penstock.curate.speech.evaluation.build import build_evaluation
from penstock.curate.speech.evaluation.candidates import Candidate, StoredClip
from penstock.curate.speech.evaluation.destination import open_destination
from penstock.readers.tar.filelist import read_filelist
from penstock.runtime.engines.engine import Engine, ThreadEngine
from penstock.runtime.engines.local import LocalEngine
from tests.curate.speech.evaluations import build_from_folders, files_of, samples_in, write_folders
from tests.media.audio.clips import whole


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folders(tmp_path_factory.mktemp("corpus") / "clips")


def test_an_archive_holds_the_clips_as_16_khz_wav_with_what_is_known_of_them(corpus: Path, tmp_path: Path) -> None:
    built = build_from_folders(corpus, tmp_path, count=6)
    assert built.made == ("hindi", "odia")
    assert set(files_of(tmp_path)) == {
        "hindi_eval.tar",
        "odia_eval.tar",
        "evaluation_manifest.json",
        "index.json",
        "evaluation.tsv",
    }
    for language in built.made:
        samples = samples_in(tmp_path / f"{language}_eval.tar")
        assert len(samples) == 6
        assert {facts["transcription"] for _, facts in samples.values()} < {f"{language} {i}" for i in range(8)}
        for name, (wav, facts) in samples.items():
            info = soundfile.info(io.BytesIO(wav))
            assert (info.samplerate, info.channels, info.subtype) == (16_000, 1, "PCM_16")
            assert list(facts) == ["id", "language", "duration", "transcription", "source"]
            assert (facts["id"], facts["language"], facts["source"]) == (name, language, "clips")
            assert facts["duration"] == info.frames / 16_000


def test_pcm16_at_16_khz_is_kept_bit_for_bit_and_the_rest_is_resampled(corpus: Path, tmp_path: Path) -> None:
    build_from_folders(corpus, tmp_path)
    samples = samples_in(tmp_path / "odia_eval.tar")
    assert len(samples) == 8, "fewer than were asked for: all of them"
    for name, (wav, _) in samples.items():
        speaker, clip, extension = name.split("_")[1:]
        original = (corpus / "odia" / speaker / f"{clip}.{extension}").read_bytes()
        found = soundfile.read(io.BytesIO(wav), dtype="int16")[0]
        if extension == "wav":
            np.testing.assert_array_equal(found, soundfile.read(io.BytesIO(original), dtype="int16")[0])
        else:
            np.testing.assert_allclose(found / 2**15, whole(original), atol=1 / 2**15)


def test_index_manifest_and_filelist_say_what_the_archives_hold(corpus: Path, tmp_path: Path) -> None:
    build_from_folders(corpus, tmp_path, count=5, seed=3)
    index = json.loads((tmp_path / "index.json").read_text())
    manifest = json.loads((tmp_path / "evaluation_manifest.json").read_text())
    assert index["audio"] == {"sample_rate": 16_000, "channels": 1, "encoding": "PCM_16"}
    seconds = 0.0
    for language, one in index["languages"].items():
        data = (tmp_path / one["file"]).read_bytes()
        samples = samples_in(tmp_path / one["file"])
        durations = [facts["duration"] for _, facts in samples.values()]
        assert (one["count"], one["bytes"]) == (5, len(data))
        assert one["sha256"] == hashlib.sha256(data).hexdigest()
        assert one["hours"] == pytest.approx(sum(durations) / 3600)
        listed = manifest["languages"][language]
        assert [sample["id"] for sample in listed["archive"]["samples"]] == list(samples)
        assert (listed["seed"], listed["requested"], listed["candidates"]) == (3, 5, 8)
        seconds += sum(durations)
    total = {"languages": 2, "count": 10, "bytes": sum(one["bytes"] for one in index["languages"].values())}
    assert index["total"] == {**total, "hours": pytest.approx(seconds / 3600)}
    items = read_filelist(tmp_path / "evaluation.tsv")
    assert len(items.ids) == 10


def test_the_same_clips_and_seed_give_the_same_bytes_wherever_and_whenever(corpus: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(corpus, tmp_path / "elsewhere" / corpus.name)
    for path in copy.rglob("*.wav"):
        os.utime(path, (10**9, 10**9))
    build_from_folders(corpus, tmp_path / "one")
    build_from_folders(copy, tmp_path / "two")
    build_from_folders(copy, tmp_path / "other", count=5, seed=1)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert files_of(tmp_path / "one")["hindi_eval.tar"] != files_of(tmp_path / "other")["hindi_eval.tar"]


def test_the_first_samples_of_a_larger_choice_are_the_smaller_one(corpus: Path, tmp_path: Path) -> None:
    build_from_folders(corpus, tmp_path / "few", count=3)
    build_from_folders(corpus, tmp_path / "many", count=6)
    few, many = (list(samples_in(tmp_path / which / "hindi_eval.tar")) for which in ("few", "many"))
    assert few == many[:3]


def test_a_clip_that_cannot_be_decoded_is_told_and_the_next_has_its_place(corpus: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(corpus, tmp_path / "damaged" / corpus.name)
    first = build_from_folders(corpus, tmp_path / "sound", count=4).languages["hindi"].archive.samples
    bad = copy / first[0].name
    bad.write_bytes(bad.read_bytes()[:1000])
    archive = build_from_folders(copy, tmp_path / "out", count=4).languages["hindi"].archive
    assert [clip.name for clip in archive.left_out] == [first[0].name]
    assert "truncated" in archive.left_out[0].reason
    assert [sample.name for sample in archive.samples][:3] == [sample.name for sample in first[1:]]
    assert len(archive.samples) == 4


@pytest.mark.parametrize("engine", [ThreadEngine(3), LocalEngine(2)])
def test_any_engine_makes_the_bytes_of_one_thread(engine: Engine, corpus: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(corpus, tmp_path / "damaged" / corpus.name)
    for bad in sorted(copy.rglob("*.wav"))[::4]:
        bad.write_bytes(bad.read_bytes()[:1000])
    built = build_from_folders(copy, tmp_path / "one", count=5)
    assert all(one.archive.left_out and len(one.archive.samples) == 5 for one in built.languages.values())
    assert build_from_folders(copy, tmp_path / "two", count=5, engine=engine).made == ("hindi", "odia")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")


def deadly(_: object) -> StoredClip:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_clip_that_kills_every_process_is_named(tmp_path: Path) -> None:
    with open_destination(str(tmp_path)) as out, pytest.raises(ValueError, match=r"x\.wav: 3 processes died"):
        build_evaluation([Candidate("clips", "odia/x.wav", "odia", 9, deadly, None)], out, LocalEngine(1))


def test_a_language_without_a_sound_clip_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "clips" / "odia").mkdir(parents=True)
    (tmp_path / "clips" / "odia" / "x.wav").write_bytes(b"no audio")
    with pytest.raises(ValueError, match=r"odia: none of its 1 clips can be decoded; odia/x\.wav: "):
        build_from_folders(tmp_path / "clips", tmp_path / "out")


def test_what_is_there_is_kept_and_what_changed_or_is_damaged_is_made_again(corpus: Path, tmp_path: Path) -> None:
    copy, out = shutil.copytree(corpus, tmp_path / corpus.name), tmp_path / "out"
    build_from_folders(copy, out)
    before = files_of(out)
    assert build_from_folders(copy, out).made == ()
    (out / "odia_eval.tar").write_bytes(before["odia_eval.tar"][:-512] + b"x" * 512)
    assert build_from_folders(copy, out).made == ("odia",)
    assert files_of(out) == before
    next((copy / "hindi").rglob("*.flac")).unlink()
    assert build_from_folders(copy, out).made == ("hindi",)
    assert build_from_folders(copy, out, count=2).made == ("hindi", "odia")
    shutil.rmtree(copy / "hindi")
    built = build_from_folders(copy, out, count=2)
    assert (built.made, sorted(built.languages)) == ((), ["hindi", "odia"]), "languages not asked for stay"


def test_a_build_that_is_killed_goes_on_with_the_languages_it_lacks(corpus: Path, tmp_path: Path) -> None:
    code = "import sys; from tests.curate.speech.evaluations import build_from_folders; from pathlib import Path;"
    code += "build_from_folders(Path(sys.argv[1]), sys.argv[2], progress=lambda *now: (print(*now, flush=True),"
    code += "sys.stdin.read() if now[:2] == ('odia', 3) else None))"
    arguments = [sys.executable, "-c", code, str(corpus), str(tmp_path / "out")]
    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdin is not None
    for line in child.stdout:
        if line.startswith("odia 3"):
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()
    assert not (tmp_path / "out" / "odia_eval.tar").exists(), "no torn archive is ever in its place"
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    assert list(index["languages"]) == ["hindi"]
    assert build_from_folders(corpus, tmp_path / "out").made == ("odia",)
    build_from_folders(corpus, tmp_path / "uninterrupted")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "uninterrupted")


def test_two_builds_at_once_make_what_one_makes_and_leave_nothing_else(corpus: Path, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from tests.curate.speech.evaluations import build_from_folders;"
    code += "print(*build_from_folders(Path(sys.argv[1]), sys.argv[2]).made)"
    arguments = [sys.executable, "-c", code, str(corpus), str(tmp_path / "out")]
    both = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(child.communicate()[0].strip() for child in both) == ["", "hindi odia"]
    assert [child.returncode for child in both] == [0, 0]
    build_from_folders(corpus, tmp_path / "alone")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "alone")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(files_of(tmp_path / "out"))


def test_a_manifest_of_somebody_elses_is_not_overwritten(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "evaluation_manifest.json").write_text('{"telugu": 500}')
    with pytest.raises(ValueError, match=r"evaluation_manifest\.json: not made by this command"):
        build_from_folders(corpus, tmp_path)
    assert (tmp_path / "evaluation_manifest.json").read_text() == '{"telugu": 500}'


def test_a_bucket_gets_the_same_files_and_only_what_it_lacks(
    corpus: Path, tmp_path: Path, s3, proxy, monkeypatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert build_from_folders(corpus, s3.url).made == ("hindi", "odia")
    build_from_folders(corpus, tmp_path / "local")
    remote = s3.remote()
    stored = {key: bytes(remote.get_range(key, 0, info.size, info.etag)) for key, info in remote.list()}
    assert stored == files_of(tmp_path / "local")
    proxy.clear()
    assert build_from_folders(corpus, s3.url).made == ()
    assert proxy.log("PUT") == []
