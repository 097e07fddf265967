"""Evaluation data out of plain folders of audio files."""

from pathlib import Path

import pytest

from penstock.curate.speech.evaluation.folders import folder_candidates
from tests.curate.speech.evaluations import write_folders


def test_every_audio_file_is_a_candidate_of_its_folders_language(tmp_path: Path) -> None:
    root = write_folders(tmp_path / "clips", clips=4)
    (root / "hindi" / ".hidden.wav").write_bytes(b"")
    (root / "hindi" / "README.md").write_text("not audio")
    found = list(folder_candidates(root))
    assert [one.name for one in found if one.language == "hindi"] == [
        "hindi/speaker0/clip0.wav",
        "hindi/speaker0/clip2.flac",
        "hindi/speaker1/clip1.wav",
        "hindi/speaker1/clip3.wav",
    ]
    assert {one.language for one in found} == {"hindi", "odia"} and {one.source for one in found} == {"clips"}
    for one in found:
        assert one.read().audio == (root / one.name).read_bytes()
        assert one.read().transcription == f"{one.language} {Path(one.name).stem[-1]}"


def test_one_folder_may_be_one_language(tmp_path: Path) -> None:
    root = write_folders(tmp_path, clips=1) / "odia"
    (found,) = folder_candidates(root, "oriya")
    assert (found.source, found.name, found.language) == ("odia", "speaker0/clip0.wav", "oriya")


def test_what_belongs_to_no_language_or_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no audio files here"):
        list(folder_candidates(tmp_path))
    (tmp_path / "stray.wav").write_bytes(b"")
    with pytest.raises(ValueError, match=r"stray\.wav: not in a language's folder; .* LANGUAGE="):
        list(folder_candidates(tmp_path))


def test_a_json_that_is_none_is_told_by_its_path(tmp_path: Path) -> None:
    root = write_folders(tmp_path, clips=3, languages=("odia",))
    (root / "odia" / "speaker0" / "clip2.json").write_text("{")
    *_, last = (one for one in folder_candidates(root) if one.name.endswith("clip2.flac"))
    with pytest.raises(ValueError, match=r"clip2\.json: not valid JSON"):
        last.read()
