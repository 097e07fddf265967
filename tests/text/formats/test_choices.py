"""Multiple choice: the right option is found however the answer names it."""

from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.formats.choices import choice_of

OPTIONS = ["ice", "tea", "lava"]


@pytest.mark.parametrize(
    "columns",
    [
        {"choices": OPTIONS, "answer": 1},
        {"options": OPTIONS, "answer": "B"},
        {"options": OPTIONS, "answer": "(B)"},
        {"options": OPTIONS, "answer": "B."},
        {"options": OPTIONS, "answer": "B. tea"},
        {"candidates": OPTIONS, "answer": "tea"},
        {"option": OPTIONS, "answer": "1"},
        {"choices": OPTIONS, "correct_choice_idx": 1, "answer": "hot water"},
        {"options": OPTIONS, "answer_id": "1"},
        {"choices": {"label": ["A", "B", "C"], "text": OPTIONS}, "answerkey": "B"},
        {"choices": {"label": ["1", "2", "3"], "text": OPTIONS}, "answerkey": "2"},
        {"a0": "ice", "a1": "tea", "a2": "lava", "answer": 1},
    ],
)
def test_an_answer_may_be_a_number_a_letter_or_a_text(columns: dict[str, Any]) -> None:
    choice = choice_of(columns)
    assert choice is not None and choice == ("A. ice\nB. tea\nC. lava", "B. tea")


def test_options_that_have_letters_keep_them() -> None:
    choice = choice_of({"options": ["(A) ice", "(B) tea"], "answer": "B"})
    assert choice is not None and choice == ("(A) ice\n(B) tea", "(B) tea")


def test_explanations_follow_the_answer() -> None:
    columns = {"choices": OPTIONS, "answer": 1, "lecture": "Heat.", "solution": "Tea.", "rationales": ["One.", "Two."]}
    choice = choice_of(columns)
    assert choice is not None and choice.answer == "B. tea\nHeat.\nTea.\nOne."


@pytest.mark.parametrize("columns", [{}, {"choices": None}, {"choices": []}, {"options": "A or B"}])
def test_without_options_there_is_no_choice(columns: dict[str, Any]) -> None:
    assert choice_of(columns) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "no answer"),
        (-1, "no answer"),
        (3, "the answer is none of the options"),
        ("D", "the answer is none of the options"),
        ("coffee", "the answer is none of the options"),
        ("-2", "the answer is none of the options"),
    ],
)
def test_an_answer_that_names_no_option_has_a_reason(answer: Any, reason: str) -> None:
    with pytest.raises(Rejected, match=f"^{reason}$"):
        choice_of({"choices": OPTIONS, "answer": answer})
