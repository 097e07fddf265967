"""FLEURS and LibriSpeech as ``datasets`` has them: local copies with their real columns, saved and as Parquet."""

import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import soundfile
from datasets import Audio, ClassLabel, Dataset, DatasetDict, Features, Value

from penstock.cli.demos.mix_data import HOURS
from penstock.curate.speech.evaluation.build import build_evaluation
from penstock.curate.speech.evaluation.destination import open_destination
from penstock.curate.speech.evaluation.hubdata import INDIC, LANGUAGES, HubData, fleurs, hub_candidates, librispeech
from penstock.runtime.engines.engine import ThreadEngine
from penstock.runtime.engines.local import LocalEngine
from tests.cli.commands import SHELL
from tests.curate.speech.evaluations import samples_in, speech
from tests.media.audio.clips import encode
from tests.servers.datasethub import DatasetHub

CODES = ["af_za", "as_in", "en_us", "fr_fr", "hi_in", "or_in", "te_in", "all"]
LONG = {"hi_in": "Hindi", "or_in": "Oriya", "te_in": "Telugu", "fr_fr": "French"}

FLEURS = Features(
    {
        "id": Value("int32"),
        "num_samples": Value("int32"),
        "path": Value("string"),
        "audio": Audio(sampling_rate=16_000),
        "transcription": Value("string"),
        "raw_transcription": Value("string"),
        "gender": ClassLabel(names=["male", "female", "other"]),
        "lang_id": ClassLabel(names=CODES),
        "language": Value("string"),
        "lang_group_id": ClassLabel(names=["western_european_we", "south_asian_sa"]),
    }
)
LIBRISPEECH = Features(
    {
        "file": Value("string"),
        "audio": Audio(sampling_rate=16_000),
        "text": Value("string"),
        "speaker_id": Value("int64"),
        "chapter_id": Value("int64"),
        "id": Value("string"),
    }
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


def with_features(rows: list[dict[str, Any]], features: Features) -> Dataset:
    """Audio is given as bytes and only then called so: encoding it by ``datasets`` takes torchcodec."""
    plain = Features({**features, "audio": {"bytes": Value("binary"), "path": Value("string")}})
    return Dataset.from_list(rows, features=plain).cast_column("audio", features["audio"])


def fleurs_rows(code: str, count: int = 6, first: int = 0) -> Dataset:
    """Two speakers a sentence: the id is the sentence's, the file's name the recording's."""
    rows: list[dict[str, Any]] = []
    for number in range(first, first + count):
        sound, file = speech(number), f"{10**18 + number}.wav"
        rows.append(
            {
                "id": 1600 + number // 2,
                "num_samples": len(sound),
                "path": f"/downloads/extracted/0123/{file}",
                "audio": {"bytes": encode(sound, 16_000), "path": file},
                "transcription": f"sentence {number // 2} in {code}",
                "raw_transcription": f"Sentence {number // 2}, in {code}!",
                "gender": number % 2,
                "lang_id": CODES.index(code),
                "language": LONG[code],
                "lang_group_id": 1,
            }
        )
    return with_features(rows, FLEURS)


def librispeech_rows() -> Dataset:
    ids = [f"1089-134686-{number:04d}" for number in range(4)]
    rows = [
        {
            "file": f"{name}.flac",
            "audio": {"bytes": encode(speech(number), 16_000, "FLAC"), "path": f"{name}.flac"},
            "text": f"HE HOPED THERE WOULD BE STEW {number}",
            "speaker_id": 1089,
            "chapter_id": 134686,
            "id": name,
        }
        for number, name in enumerate(ids)
    ]
    return with_features(rows, LIBRISPEECH)


def saved(folder: Path, splits: dict[str, Dataset]) -> None:
    DatasetDict(splits).save_to_disk(str(folder))


def split_folders(folder: Path, splits: dict[str, Dataset]) -> None:
    """As the hub's own Parquet branch has them."""
    for split, rows in splits.items():
        (folder / split).mkdir(parents=True)
        rows.to_parquet(str(folder / split / "0000.parquet"))


def split_names(folder: Path, splits: dict[str, Dataset]) -> None:
    """As ``push_to_hub`` writes them."""
    (folder / "data").mkdir(parents=True)
    for split, rows in splits.items():
        rows.to_parquet(str(folder / "data" / f"{split}-00000-of-00001.parquet"))


LAYOUTS: list[Callable[[Path, dict[str, Dataset]], None]] = [saved, split_folders, split_names]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fleurs_and_librispeech_become_evaluation_data(tmp_path: Path, layout) -> None:
    for code in ("hi_in", "or_in"):
        layout(tmp_path / "fleurs" / code, {"test": fleurs_rows(code), "validation": fleurs_rows(code, 2, 50)})
    layout(tmp_path / "libri" / "clean", {"test": librispeech_rows()})
    where = str(tmp_path / "fleurs")
    sources = [fleurs("hi_in", where=where), fleurs("or_in", where=where), librispeech(where=str(tmp_path / "libri"))]
    with open_destination(str(tmp_path / "out")) as out:
        built = build_evaluation((one for source in sources for one in hub_candidates(source)), out, LocalEngine(2))
    assert built.made == ("english", "hindi", "odia")

    hindi = samples_in(tmp_path / "out" / "hindi_eval.tar")
    assert set(hindi) == {f"{1600 + i // 2}_{10**18 + i}" for i in range(6)}
    for name, (wav, facts) in hindi.items():
        number = int(name.split("_")[1]) - 10**18
        assert facts["transcription"] == f"sentence {number // 2} in hi_in"
        assert (facts["language"], facts["source"]) == ("hindi", "fleurs:hi_in:test")
        expected = soundfile.read(io.BytesIO(encode(speech(number), 16_000)), dtype="int16")[0]
        np.testing.assert_array_equal(soundfile.read(io.BytesIO(wav), dtype="int16")[0], expected)

    english = samples_in(tmp_path / "out" / "english_eval.tar")
    assert set(english) == {f"1089-134686-{number:04d}" for number in range(4)}
    assert english["1089-134686-0002"][1]["transcription"] == "HE HOPED THERE WOULD BE STEW 2"
    assert english["1089-134686-0002"][1]["source"] == "librispeech:clean:test"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_splits_can_be_joined(tmp_path: Path, layout) -> None:
    layout(tmp_path / "te_in", {"test": fleurs_rows("te_in"), "validation": fleurs_rows("te_in", 3, 50)})
    found = list(hub_candidates(fleurs("te_in", "test+validation", str(tmp_path))))
    assert len(found) == len({one.name for one in found}) == 9
    assert {one.source for one in found} == {"fleurs:te_in:test+validation"}


def test_how_the_copy_is_stored_does_not_change_the_choice(tmp_path: Path) -> None:
    archives = []
    for number, layout in enumerate(LAYOUTS):
        layout(tmp_path / str(number) / "te_in", {"test": fleurs_rows("te_in")})
        with open_destination(str(tmp_path / f"out{number}")) as out:
            build_evaluation(
                hub_candidates(fleurs("te_in", where=str(tmp_path / str(number)))), out, ThreadEngine(1), count=4
            )
        archives.append((tmp_path / f"out{number}" / "telugu_eval.tar").read_bytes())
    assert archives[0] == archives[1] == archives[2]


def test_the_language_is_the_rows_own_by_its_code_else_by_its_name(tmp_path: Path) -> None:
    both = datasets.concatenate_datasets([fleurs_rows("or_in", 2), fleurs_rows("fr_fr", 2, 10)])
    both.save_to_disk(str(tmp_path / "all"))
    found = list(hub_candidates(fleurs("all", where=str(tmp_path))))
    assert [one.language for one in found] == ["odia", "odia", "french", "french"]
    assert {one.language for one in hub_candidates(fleurs("all", where=str(tmp_path), language="mixed"))} == {"mixed"}


def test_the_twelve_languages_have_the_names_of_the_training_data() -> None:
    assert len(INDIC) == 11
    assert sorted(LANGUAGES.values()) == sorted(HOURS)


def test_audio_may_lie_in_files_beside_the_table(tmp_path: Path) -> None:
    path = tmp_path / "7.wav"
    path.write_bytes(encode(speech(7), 16_000))
    features = Features({"audio": Value("string"), "sentence": Value("string")})
    rows = Dataset.from_list([{"audio": str(path), "sentence": "beside"}], features=features)
    rows.cast_column("audio", Audio(decode=False)).save_to_disk(str(tmp_path / "saved"))
    (found,) = hub_candidates(HubData("mine", str(tmp_path / "saved"), None, "test", "tamil"))
    assert (found.name, found.size, found.read().transcription) == ("7", path.stat().st_size, "beside")
    assert found.read().audio == path.read_bytes()


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    saved(tmp_path / "te_in", {"test": fleurs_rows("te_in", 1)})
    with pytest.raises(ValueError, match=r"no split 'dev'; it has test"):
        list(hub_candidates(fleurs("te_in", "dev", str(tmp_path))))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no Parquet files of the split 'test'"):
        list(hub_candidates(fleurs("hi_in", where=str(tmp_path / "empty"))))
    Dataset.from_list([{"text": "x"}]).save_to_disk(str(tmp_path / "text"))
    with pytest.raises(ValueError, match=r"no column `audio`; it has text"):
        list(hub_candidates(librispeech(where=str(tmp_path / "text"))))
    librispeech_rows().save_to_disk(str(tmp_path / "libri"))
    with pytest.raises(ValueError, match=r"nor in its config; write LANGUAGE="):
        list(hub_candidates(HubData("mine", str(tmp_path / "libri"), None, "test")))


def test_a_hub_that_cannot_be_reached_is_told_by_the_source(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fleurs:te_in:test: no/such is not a local folder, and loading it"):
        list(hub_candidates(fleurs("te_in", where="no/such")))


def test_from_the_hub_only_the_files_of_the_config_and_split_are_downloaded(tmp_path: Path) -> None:
    for code in ("hi_in", "te_in"):
        split_folders(tmp_path / "hub" / code, {"test": fleurs_rows(code, 3), "validation": fleurs_rows(code, 3, 9)})
    split_folders(tmp_path / "hub" / "local" / "te_in", {"test": fleurs_rows("te_in", 3)})
    files = {path.relative_to(tmp_path / "hub"): path.read_bytes() for path in (tmp_path / "hub").rglob("*.parquet")}
    with DatasetHub("google/fleurs", {path.as_posix(): data for path, data in files.items()}) as hub:
        # The library reads where its hub is when it is imported: a process of its own.
        environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
        command = [*SHELL, "eval", "build", str(tmp_path / "out"), "--source", "fleurs:te_in"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        fetched = {path.partition("/resolve/")[2].split("/", 1)[1] for path in hub.asked if "/resolve/" in path}
        assert fetched == {"te_in/test/0000.parquet"}
    with open_destination(str(tmp_path / "same")) as out:
        build_evaluation(hub_candidates(fleurs("te_in", where=str(tmp_path / "hub" / "local"))), out, ThreadEngine(1))
    archive = "telugu_eval.tar"
    assert (tmp_path / "out" / archive).read_bytes() == (tmp_path / "same" / archive).read_bytes()


def test_the_manifest_names_rows_of_the_dataset(tmp_path: Path) -> None:
    saved(tmp_path / "te_in", {"test": fleurs_rows("te_in", 2)})
    with open_destination(str(tmp_path / "out")) as out:
        build_evaluation(hub_candidates(fleurs("te_in", where=str(tmp_path))), out, ThreadEngine(1))
    manifest = json.loads((tmp_path / "out" / "evaluation_manifest.json").read_text())
    samples = manifest["languages"]["telugu"]["archive"]["samples"]
    assert {(one["source"], one["name"]) for one in samples} == {
        ("fleurs:te_in:test", f"1600_{10**18 + number}") for number in range(2)
    }
