"""Multiple choice: options, and an answer that names one of them by number, letter or text."""

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

from penstock.text.errors import Rejected
from penstock.text.formats.columns import Columns, first

_OPTIONS = ("choices", "options", "candidates", "option")
_NUMBERED = ("a0", "a1", "a2", "a3", "a4")  # one column per option
_RIGHT = ("correct_choice_idx", "correct_choice", "answer_idx", "answer_id", "answerkey", "answer")
_EXPLANATIONS = ("lecture", "solution", "explanation", "rationale", "rationales")
_LABEL = re.compile(r"\(?([A-Z])[.):]\s")


class Choice(NamedTuple):
    """A question's options, one per line, and the right one with its explanation."""

    options: str
    answer: str


def choice_of(columns: Columns) -> Choice | None:
    """Return the options and the answer of a record; None if it has no options.

    Raises:
        Rejected: If there is no answer, or it is none of the options.
    """
    options = _options(columns)
    if not options:
        return None
    lines = options
    if not all(_LABEL.match(each) for each in options):
        lines = [f"{letter}. {each}" for letter, each in zip(ascii_uppercase, options, strict=False)]
    answer = lines[_index(first(columns, _RIGHT), options, _labels(columns))]
    return Choice("\n".join(lines), "\n".join([answer, *_explanations(columns)]))


def _options(columns: Columns) -> list[str]:
    found = first(columns, _OPTIONS)
    if isinstance(found, Mapping):
        found = found.get("text")
    if found is None and all(name in columns for name in _NUMBERED[:2]):
        found = [columns[name] for name in _NUMBERED if columns.get(name) is not None]
    if not isinstance(found, list | tuple) or len(found) > len(ascii_uppercase):
        return []
    return [str(each) for each in found]


def _labels(columns: Columns) -> list[str]:
    """Return the labels of the options, if any: ``1`` may be the first label, or the second index."""
    found = first(columns, _OPTIONS)
    labels = found.get("label") if isinstance(found, Mapping) else None
    return [str(each) for each in labels] if isinstance(labels, list | tuple) else []


def _index(answer: Any, options: Sequence[str], labels: Sequence[str]) -> int:
    if answer is None or answer == -1:
        raise Rejected("no answer")
    text = str(answer)
    if text in labels[: len(options)]:
        return labels.index(text)
    if isinstance(answer, str) and answer in options:
        return options.index(answer)
    label = _LABEL.match(f"{text} ") or re.fullmatch(r"\(?([A-Z])\)?", text)
    index = ascii_uppercase.index(label.group(1)) if label else int(text) if text.isdecimal() else len(options)
    if index >= len(options):
        raise Rejected("the answer is none of the options")
    return index


def _explanations(columns: Columns) -> list[str]:
    found = [columns.get(name) for name in _EXPLANATIONS]
    texts = [each[0] if isinstance(each, list) and each else each for each in found]
    return [each for each in texts if isinstance(each, str) and each]
