from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.curate.speech.holdout import HoldOut, read_names

SPEAKERS = [f"speaker-{number}" for number in range(4_000)]
PROMISED = [
    "speaker-1067",
    "speaker-1443",
    "speaker-1850",
    "speaker-2336",
    "speaker-3442",
    "speaker-3733",
    "speaker-534",
    "speaker-758",
]


def held(hold_out: HoldOut, speakers: list[str]) -> set[str]:
    return {name for name in speakers if hold_out.name_of("a.tar", "clip", {"speaker": name})}


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_about_the_asked_share_of_speakers_is_held_out(share):
    spread = (len(SPEAKERS) * share * (1 - share)) ** 0.5
    assert abs(len(held(HoldOut(share=share), SPEAKERS)) - share * len(SPEAKERS)) < 4 * spread


def test_a_larger_share_holds_out_all_that_a_smaller_one_does():
    assert held(HoldOut(share=0.02), SPEAKERS) < held(HoldOut(share=0.1), SPEAKERS)


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_all_clips_of_a_speaker_fall_on_one_side(speaker, one, other):
    hold_out = HoldOut(share=0.5)
    fields = {"speaker": speaker}
    assert hold_out.name_of("a.tar", one, fields) == hold_out.name_of("b.tar", other, fields)


def test_which_speakers_are_held_out_is_a_promise_that_outlives_releases():
    assert sorted(held(HoldOut(share=0.002), SPEAKERS)) == PROMISED


def test_clips_without_a_speaker_are_drawn_one_by_one():
    hold_out = HoldOut(share=0.5)
    sides = {hold_out.name_of("a.tar", f"clip{number}", {}) is None for number in range(40)}
    assert sides == {True, False}


def test_named_speakers_and_ids_are_held_out_and_no_others():
    hold_out = HoldOut(speakers=frozenset({"1088"}), ids=frozenset({"x", "b.tar:y"}))
    assert hold_out.name_of("a.tar", "clip", {"speaker": 1088}) == "1088"
    assert hold_out.name_of("a.tar", "x", {}) == "x"
    assert hold_out.name_of("b.tar", "y", {}) == "b.tar:y"
    assert hold_out.name_of("a.tar", "y", {"speaker": "other"}) is None


def test_a_file_of_names_has_one_per_line(tmp_path: Path):
    (tmp_path / "names").write_text("one\n\n two words \r\n")
    assert read_names(tmp_path / "names") == {"one", "two words"}
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="one per line"):
        read_names(tmp_path / "empty")


def test_all_of_the_speakers_cannot_be_held_out():
    with pytest.raises(ValueError, match="less than 1"):
        HoldOut(share=1.0)
