"""LibriSpeech, Common Voice and Kaldi folders, in exactly their layouts, from the index to a batch."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import penstock
from penstock.manifest.errors import ManifestError
from penstock.readers.tar.loose import read_commonvoice, read_kaldi, read_librispeech
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.reader import TarReader
from penstock.readers.tar.selected import SelectedManifest
from penstock.store.local import LocalStore
from tests.cli.commands import complaint, run
from tests.conftest import S3Prefix
from tests.recipes.test_speech import RATE, ramp, wav

SPEECH = Path(__file__).parents[2] / "data" / "speech"
CLIP = "common_voice_en_651325.mp3"
HEADER = (
    "client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\tgender\taccents\tvariant"
    "\tlocale\tsegment"
)


def librispeech(root: Path) -> Path:
    """Two subsets; the real utterance among made ones."""
    for subset, speaker, chapter, count in (("dev-clean", 2412, 153948, 2), ("train-clean-100", 103, 1240, 3)):
        folder = root / subset / str(speaker) / str(chapter)
        folder.mkdir(parents=True)
        lines = [f"{speaker}-{chapter}-{number:04} SAID {number}\n" for number in range(count)]
        (folder / f"{speaker}-{chapter}.trans.txt").write_text("".join(lines))
        for number in range(count):
            sound = ramp(RATE // 4 * (number + 1)) / 32768
            soundfile.write(folder / f"{speaker}-{chapter}-{number:04}.flac", sound, RATE, subtype="PCM_16")
    shutil.copy(SPEECH / "2412-153948-0001.flac", root / "dev-clean" / "2412" / "153948")
    (root / "SPEAKERS.TXT").write_text(";ID  |SEX| SUBSET\n")
    return root


def commonvoice(root: Path, *, durations: bool = True) -> Path:
    folder = root / "en"
    (folder / "clips").mkdir(parents=True)
    shutil.copy(SPEECH / CLIP, folder / "clips")
    shutil.copy(SPEECH / "stereo.mp3", folder / "clips" / "common_voice_en_7.mp3")
    rows = [
        f'abc\t{CLIP}\t9f\tHe said "well", she said.\t\t2\t0\ttwenties\tfemale_feminine\t\t\ten\t',
        "def\tcommon_voice_en_7.mp3\t8a\tThe end.\t\t3\t1\t\t\t\t\ten\t",
    ]
    (folder / "train.tsv").write_text("\n".join([HEADER, *rows, ""]))
    if durations:
        (folder / "clip_durations.tsv").write_text(f"clip\tduration[ms]\n{CLIP}\t2376\nother.mp3\t1\n")
    return root


def kaldi(root: Path) -> tuple[Path, Path]:
    """One recording of three segments, and one that is an utterance; paths are absolute and relative."""
    (root / "audio" / "calls").mkdir(parents=True)
    (root / "audio" / "calls" / "rec1.wav").write_bytes(wav(ramp(RATE)))
    (root / "audio" / "rec2.wav").write_bytes(wav(ramp(RATE // 2)))
    data = root / "data" / "train"
    data.mkdir(parents=True)
    (data / "wav.scp").write_text(f"rec1 {root}/audio/calls/rec1.wav\nrec2 rec2.wav\n")
    (data / "segments").write_text("a-1 rec1 0.0 0.25\na-2 rec1 0.25 0.75\nb-1 rec1 0.75 1.0\nb-2 rec2 0.0 0.5\n")
    (data / "text").write_text("a-1 one\na-2 two  words\nb-1 three\nb-2 four\n")
    (data / "utt2spk").write_text("a-1 a\na-2 a\nb-1 b\nb-2 b\n")
    return root / "audio", data


def epoch(
    manifest: Path, store: str | Path, items: int, **more: Any
) -> dict[str, tuple[str, str, np.ndarray[Any, Any]]]:
    """Text, speaker and samples of all items, by id."""
    feed = penstock.speech(
        {"manifest": str(manifest), "store": str(store), "batch_size": items, "mixture": {"weights": "items"}, **more},
        crop="full",
        features=False,
        text_field="text",
        json_fields=["speaker"],
        passes=1,
    )
    batch = feed.batch(0)
    assert not batch["bad"]
    sounds = [each[:length].numpy() for each, length in zip(batch["wav"], batch["length"], strict=True)]
    return dict(zip(batch["ids"], zip(batch["text"], batch["speaker"], sounds, strict=True), strict=True))


def test_librispeech_is_read_in_place(tmp_path: Path) -> None:
    root = librispeech(tmp_path / "LibriSpeech")
    result = run("index", root, "--librispeech", "-o", tmp_path / "index")
    assert result.exit_code == 0, result.output
    assert "5 items in 5 files, 2 sources" in result.stdout
    manifest = TarManifest(tmp_path / "index")
    assert (manifest.sources, manifest.items) == (("dev-clean", "train-clean-100"), (2, 3))
    assert manifest.group_name(0, 0) == "dev-clean/2412/153948"
    found = epoch(tmp_path / "index", root, 5)
    real, rate = soundfile.read(SPEECH / "2412-153948-0001.flac", dtype="float32")
    assert rate == RATE
    assert found["2412-153948-0001"][:2] == ("SAID 1", "2412")
    assert np.array_equal(found["2412-153948-0001"][2], real)
    assert {name: each[0] for name, each in found.items() if "103" in name} == {
        f"103-1240-000{number}": f"SAID {number}" for number in range(3)
    }
    rows = manifest.find("2412-153948-0001")
    assert manifest.seconds(rows).tolist() == pytest.approx([len(real) / RATE])
    assert rows == manifest.find("dev-clean/2412/153948:2412-153948-0001")


def test_a_subset_of_librispeech_has_the_name_of_its_folder(tmp_path: Path) -> None:
    root = librispeech(tmp_path / "LibriSpeech") / "dev-clean"
    assert run("index", root, "--librispeech", "-o", tmp_path / "index").exit_code == 0
    assert TarManifest(tmp_path / "index").sources == ("dev-clean",)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.flac").touch()
    assert "there is no *.trans.txt; name a folder of LibriSpeech" in complaint(
        run("index", tmp_path / "empty", "--librispeech", "-o", tmp_path / "other")
    )


@pytest.mark.parametrize("durations", [True, False])
@pytest.mark.parametrize("below", [True, False])
def test_common_voice_is_read_in_place(tmp_path: Path, durations: bool, below: bool) -> None:
    root = commonvoice(tmp_path / "cv", durations=durations)
    folder, table = (root / "en", "train.tsv") if below else (root, root / "en" / "train.tsv")
    result = run("index", folder, "--commonvoice", table, "--text-field", "text", "-o", tmp_path / "index")
    assert result.exit_code == 0, result.output
    manifest = TarManifest(tmp_path / "index")
    assert manifest.sources == ("en",)
    assert manifest.ids(range(2)) == ["common_voice_en_651325", "common_voice_en_7"]
    assert manifest.seconds(range(2)).tolist() == pytest.approx([2.376, 1.0])  # of 7 always from its header
    fields = json.loads((manifest.fields([0]) or [b""])[0])
    assert fields.pop("duration", 2.376) == 2.376
    assert fields == {
        "speaker": "abc",
        "text": 'He said "well", she said.',
        "sentence_id": "9f",
        "up_votes": "2",
        "down_votes": "0",
        "age": "twenties",
        "gender": "female_feminine",
        "language": "en",
    }
    found = epoch(tmp_path / "index", folder, 2)
    assert found["common_voice_en_7"][:2] == ("The end.", "def")
    assert len(found["common_voice_en_651325"][2]) == pytest.approx(2.376 * RATE, abs=RATE // 100)


def test_kaldi_segments_are_items_of_their_recordings(tmp_path: Path) -> None:
    audio, data = kaldi(tmp_path)
    result = run("index", audio, "--kaldi", data, "-o", tmp_path / "index")
    assert result.exit_code == 0, result.output
    assert "4 items in 2 files, 1 source" in result.stdout
    manifest = TarManifest(tmp_path / "index")
    assert manifest.sources == ("train",)
    whole = ramp(RATE)
    expected = {
        "a-1": ("one", "a", whole[:4000]),
        "a-2": ("two  words", "a", whole[4000:12000]),
        "b-1": ("three", "b", whole[12000:]),
        "b-2": ("four", "b", ramp(RATE // 2)),
    }
    found = epoch(tmp_path / "index", audio, 4)
    assert found.keys() == expected.keys()
    for name, (text, speaker, sound) in expected.items():
        assert found[name][:2] == (text, speaker)
        assert np.array_equal(np.rint(found[name][2] * 32768), sound)
    assert manifest.group_name(0, 0) == "."


def test_kaldi_without_segments_has_an_utterance_per_file(tmp_path: Path) -> None:
    audio, data = kaldi(tmp_path)
    (data / "segments").unlink()
    (data / "text").write_text("rec1 all of it\n")
    result = run("index", audio, "--kaldi", data, "-o", tmp_path / "index", "--text-field", "text")
    assert "1 clip without a text left out" in result.stdout
    manifest = TarManifest(tmp_path / "index")
    assert manifest.ids([0]) == ["rec1"]
    assert manifest.seconds([0]).tolist() == [1.0]


def test_only_files_of_several_items_are_pinned(tmp_path: Path) -> None:
    """A file of one item is used in one step. Pins of 65,536 of them would cost more than the step."""
    audio, data = kaldi(tmp_path)
    run("index", audio, "--kaldi", data, "-o", tmp_path / "index")
    for manifest in (TarManifest(tmp_path / "index"), SelectedManifest(tmp_path / "index", 0.2, 1.0)):
        reader = TarReader(manifest, lambda: LocalStore(audio))
        assert [extent.unit.path for extent in reader.resident(0, 0)] == ["calls/rec1.wav"]


def test_loose_files_form_groups_of_hundreds(tmp_path: Path) -> None:
    folder = tmp_path / "s" / "1" / "2"
    folder.mkdir(parents=True)
    sound = wav(ramp(160))
    (folder / "1-2.trans.txt").write_text("".join(f"1-2-{number:04} A\n" for number in range(1100)))
    for number in range(1100):
        (folder / f"1-2-{number:04}.wav").write_bytes(sound)
    assert run("index", tmp_path / "s", "--librispeech", "-o", tmp_path / "index").exit_code == 0
    manifest = TarManifest(tmp_path / "index")
    assert manifest.group_sizes(0).tolist() == [366, 367, 367]
    assert [manifest.shard(number).path for number in manifest.shard_of([0, 1099])] == [
        "1/2/1-2-0000.wav",
        "1/2/1-2-1099.wav",
    ]
    assert manifest.fingerprints == TarManifest(tmp_path / "index").fingerprints


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "wav.scp",
            "rec1 sox rec1.wav -t wav - |\n",
            "wav.scp:1: is a command, 'sox rec1.wav -t wav - |', and commands",
        ),
        ("wav.scp", "rec1 /elsewhere/rec1.wav\n", "there is no /elsewhere/rec1.wav below"),
        ("wav.scp", "rec1 ../rec1.wav\n", "there is no ../rec1.wav below"),
        ("wav.scp", "rec1 rec1.sph\n", "rec1.sph is not a file of wav, flac, mp3, ogg, opus; convert it"),
        ("wav.scp", "rec2 rec2.wav\nrec2 rec2.wav\n", "wav.scp:2: rec2 is there twice"),
        ("segments", "a-1 rec9 0 1\n", "segments:1: rec9 is not in wav.scp"),
        ("segments", "a-1 rec1 0 x\n", "segments:1: is not an utterance, a recording, its start and its end"),
        ("segments", "a-1 rec1 3 -1\n", "segments:1: its duration is -4.0, not a number of seconds"),
    ],
)
def test_what_is_wrong_in_a_kaldi_folder_is_named(tmp_path: Path, name: str, content: str, reason: str) -> None:
    audio, data = kaldi(tmp_path)
    (data / name).write_text(content)
    result = run("index", audio, "--kaldi", data, "-o", tmp_path / "index")
    assert (result.exit_code, reason in result.stderr) == (2, True), result.output
    (data / "wav.scp").unlink()
    with pytest.raises(ManifestError, match=r"there is no wav\.scp; name a Kaldi data folder"):
        read_kaldi([data], str(audio), [])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("common_voice_en_7.mp3", "gone.mp3"), "train.tsv:3: there is no en/clips/gone.mp3"),
        (lambda text: text.replace("sentence\t", "said\t"), "train.tsv:1: has no column sentence; it has client_id"),
        (lambda text: text.replace("The end.", "The\tend."), "train.tsv:3: has 14 columns, and the header has 13"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(tmp_path: Path, change: Callable[[str], str], reason: str) -> None:
    table = commonvoice(tmp_path / "cv") / "en" / "train.tsv"
    table.write_text(change(table.read_text()))
    paths = [path.relative_to(tmp_path / "cv").as_posix() for path in (tmp_path / "cv").rglob("*")]
    with pytest.raises(ManifestError) as caught:
        read_commonvoice(LocalStore(tmp_path / "cv"), paths, ["en/train.tsv"], "cv")
    assert reason in str(caught.value)
    with pytest.raises(ManifestError, match=r"en/dev\.tsv: there is no such table in the folder"):
        read_commonvoice(LocalStore(tmp_path / "cv"), paths, ["en/dev.tsv"], "cv")


def test_transcripts_without_a_file_or_not_utf8_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.trans.txt").write_bytes(b"a-1 TEXT\na-2 \xff\n")
    with pytest.raises(ManifestError) as caught:
        read_librispeech(LocalStore(tmp_path), ["a.trans.txt"], "x")
    assert "a.trans.txt:1: there is no a-1.flac beside it" in str(caught.value)
    assert "a.trans.txt:2: is not UTF-8" in str(caught.value)


def test_a_file_that_is_empty_is_named_and_the_others_are_read_only_once(tmp_path: Path) -> None:
    root = librispeech(tmp_path / "LibriSpeech")
    file = root / "dev-clean" / "2412" / "153948" / "2412-153948-0000.flac"
    sound = file.read_bytes()
    file.write_bytes(b"")
    arguments = ("index", root, "--librispeech", "-o", tmp_path / "index")
    assert "2412-153948-0000.flac: is empty" in run(*arguments).stderr
    file.write_bytes(sound)
    assert run(*arguments).exit_code == 0
    for job in range(2):
        assert run(*arguments, "--shard", f"{job}/2").exit_code == 0
    file.write_bytes(sound[:-1] + b"?")
    bad = penstock.open(manifest=tmp_path / "index", store=str(root), global_batch_size=5, passes=1).batch(0)["bad"]
    assert [each.id for each in bad] == ["2412-153948-0000"]


def test_a_corpus_in_a_bucket_is_read_in_place(s3: S3Prefix, tmp_path: Path) -> None:
    for path in commonvoice(tmp_path / "cv").rglob("*.*"):
        s3.put(path.relative_to(tmp_path / "cv").as_posix(), path.read_bytes())
    reached = ("--endpoint", s3.server.url, "--region", "us-east-1", "--requests-per-second", "1000")
    result = run("index", s3.url, "--commonvoice", "en/train.tsv", "-o", tmp_path / "index", "--sha256", *reached)
    assert result.exit_code == 0, result.output
    assert TarManifest(tmp_path / "index").store == s3.url
    remote = {"endpoint": s3.server.url, "region": "us-east-1"}
    here = epoch(tmp_path / "index", tmp_path / "cv", 2)
    there = epoch(tmp_path / "index", s3.url, 2, remote=remote, cache={"dir": str(tmp_path / "cache"), "size": 10**9})
    assert here.keys() == there.keys()
    for name, (text, speaker, sound) in here.items():
        assert there[name][:2] == (text, speaker)
        assert np.array_equal(there[name][2], sound)


def test_options_of_loose_files_are_refused_where_they_mean_nothing(tmp_path: Path) -> None:
    root = librispeech(tmp_path / "LibriSpeech")
    index = ("index", root, "--librispeech", "-o", tmp_path / "index")
    assert "--librispeech, --kaldi: give one of them" in complaint(run(*index, "--kaldi", tmp_path))
    assert "name one folder, which is also the store" in complaint(run(*index, "--store", tmp_path))
    (tmp_path / "run.yaml").write_text("recipe: speech\n")
    assert "--librispeech: only for" in complaint(run("index", tmp_path / "run.yaml", "--librispeech"))
