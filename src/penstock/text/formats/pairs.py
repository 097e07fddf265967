"""A question and its answer in columns of their own: Alpaca, prompt and completion, and the like."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.text.errors import Rejected
from penstock.text.formats.choices import choice_of
from penstock.text.formats.columns import Columns, first, first_text
from penstock.text.formats.loose import parsed
from penstock.text.formats.messages import RecordTurn, turn, turns_of

QUESTIONS = ("instruction", "question", "query", "prompt", "problem", "problem_statement", "q", "user", "input")
ANSWERS = (
    "output",
    "response",
    "completion",
    "multiple_choice_answer",
    "best_answer",
    "answer",
    "answers",
    "solution",
    "solutions",
    "code",
    "canonical_solution",
    "a",
    "assistant",
    "patch",
)
_CHOSEN = {"chosen": "rejected", "chosen_messages": "rejected_messages"}
_CONTEXTS = ("input", "context", "hint")
_REASONING = ("reasoning_content", "thinking", "complex_cot", "chain_of_thought", "cot")
_LISTS = ("answers", "solutions", "label")  # several answers, the first of which is taken; may be JSON


def question_of(columns: Columns, questions: Sequence[str] = QUESTIONS, default: str = "") -> list[RecordTurn] | None:
    """Return the turns of ``history`` and that of the question, with its context.

    Args:
        columns: Columns of the record.
        questions: Columns for the question, by priority.
        default: Question of records that have none.

    Returns:
        Turns; None if there is no question.
    """
    name = next((each for each in questions if first_text(columns, (each,))), "")
    question = columns[name] if name else default
    if not question:
        return None
    context = first_text(columns, [each for each in _CONTEXTS if each != name])
    return [*_history(columns), turn("user", f"{question}\n{context}" if context else question)]


def pair_of(
    columns: Columns, questions: Sequence[str] = QUESTIONS, answers: Sequence[str] = ANSWERS, default: str = ""
) -> list[RecordTurn] | None:
    """Return the question and the answer of a record as turns, after those of ``history``.

    Args:
        columns: Columns of the record.
        questions: Columns for the question, by priority.
        answers: Columns for the answer, by priority.
        default: Question of records that have none.

    Returns:
        Turns; None if the record has no question or no answer.

    Raises:
        Rejected: If it is a multiple choice without a valid answer.
    """
    asked = question_of(columns, questions, default)
    if asked is None:
        return None
    choice = choice_of(columns)
    answer = choice.answer if choice else answer_of(columns, answers)
    if not answer:
        return None
    if choice:
        asked[-1] = asked[-1]._replace(content=f"{asked[-1].content}\n{choice.options}")
    reply = turn("assistant", answer)
    if reasoning := first_text(columns, _REASONING):
        reply.message["reasoning_content"] = reasoning
    return [*asked, reply]


def answer_of(columns: Columns, names: Sequence[str] = ANSWERS) -> str:
    """Return the first answer of the named columns, else an empty text."""
    for name in names:
        answer = _text(columns.get(name), several=name in _LISTS)
        if answer:
            return answer
    return ""


def prompted(columns: Columns) -> list[RecordTurn] | None:
    """Return the turns of a prompt (messages) and its completion (messages or text); None for other prompts.

    Only the completion is trained on.
    """
    prompt = _listed(columns.get("prompt"))
    if not isinstance(prompt, list | tuple):
        return None
    turns = _not_trained(turns_of(prompt))
    completion = _listed(first(columns, ("completion", "response", "answer")))
    if isinstance(completion, str):
        return [*turns, turn("assistant", completion)]
    if completion is None:
        raise Rejected("no completion")
    return [*turns, *turns_of(completion)]


def preferred(columns: Columns, listed: Any) -> list[RecordTurn] | None:
    """Return the turns of a record of preferences, with the ``chosen`` answer and without the ``rejected`` one.

    Args:
        columns: Columns of the record.
        listed: Turns before the answer, if the record lists them.

    Returns:
        Turns, of which only those of ``chosen`` are trained; None if the record has no such columns.

    Raises:
        Rejected: If it has such columns, but they cannot be used.
    """
    name = next((name for name in _CHOSEN if columns.get(_CHOSEN[name]) is not None and name in columns), "")
    if not name:
        return None
    chosen = columns[name]
    if not chosen:
        raise Rejected("no chosen answer")
    if not isinstance(chosen, str | Mapping | list | tuple):
        raise Rejected("the chosen answer is neither a text nor messages")
    chosen = _listed(chosen)
    answer = [turn("assistant", chosen)] if isinstance(chosen, str) else turns_of(chosen)
    if answer[0].message["role"] in ("system", "user"):
        return answer  # the whole conversation
    prompt = _listed(listed if listed is not None else columns.get("prompt"))
    asked = turns_of(prompt) if isinstance(prompt, list | tuple) else question_of(columns)
    while asked and asked[-1].message["role"] == "assistant":
        asked.pop()  # the answer that `chosen` takes the place of
    if not asked:
        raise Rejected("no prompt")
    return [*_not_trained(asked), *answer]


def _listed(value: Any) -> Any:
    """Return one message, or the JSON of messages, as a list; other values unchanged."""
    messages = value
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        with suppress(ValueError):
            messages = parsed(value)
    each = messages if isinstance(messages, list | tuple) else [messages]
    has_roles = all(isinstance(one, Mapping) and ("role" in one or "from" in one) for one in each)
    return each if each and has_roles else value


def _not_trained(turns: list[RecordTurn]) -> list[RecordTurn]:
    for each in turns:
        if each.message["role"] == "assistant":
            each.message["train"] = False
    return turns


def _history(columns: Columns) -> list[RecordTurn]:
    """Earlier questions and answers, as Alpaca's ``history`` has them: a list of pairs."""
    rounds = first(columns, ("history",)) or []
    if not isinstance(rounds, list) or not all(isinstance(each, list | tuple) and len(each) == 2 for each in rounds):
        raise Rejected("the history is not a list of pairs")
    return [made for asked, answered in rounds for made in (turn("user", asked), turn("assistant", answered))]


def _text(value: Any, several: bool) -> str:
    """An answer as text: the first one of several. A number is written out."""
    if isinstance(value, str):
        if several and value.startswith("["):
            return _first_of_json(value)
        return value
    if isinstance(value, Mapping):
        return _text(first(value, ("answer", "text")), several=True)
    if isinstance(value, list | tuple):
        return next((text for each in value if (text := _text(each, several=False))), "")
    return "" if value is None else str(value)


def _first_of_json(value: str) -> str:
    try:
        return _text(parsed(value), several=False)
    except ValueError:
        return value
