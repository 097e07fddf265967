"""Formats of text: conversations of any shape, code, tools, commits, and texts as they are."""

from penstock.text.errors import Rejected
from penstock.text.formats.columns import Columns, columns_of, first, first_text
from penstock.text.formats.messages import RecordTurn, turn
from penstock.text.formats.pairs import ANSWERS, QUESTIONS, pair_of, question_of
from penstock.text.formats.sample import Record, Sample, Tokens
from penstock.text.formats.shapes import conversation_of, listed_of, required, sample_of
from penstock.text.formats.tools import calls_of

CODE_SYSTEM = "You are an expert programmer. Write clean, efficient code."

_CODE_QUESTIONS = (*QUESTIONS, "text")
_CODE_ANSWERS = ("output", "code", *ANSWERS)
_TOOL_ANSWERS = ("response", "output", "answers", "answer", "completion")
_LANGUAGES = ("language", "lang", "programming_language")


def text(record: Record, _: Tokens) -> Sample:
    """Pass ``text`` through."""
    return _passed(columns_of(record))


def conversation(record: Record, _: Tokens) -> Sample:
    """Format a conversation of any shape; a record with nothing but ``text`` is passed through."""
    columns = columns_of(record)
    return _conversation_or_text(conversation_of(columns), columns)


def chain_of_thought(record: Record, _: Tokens) -> Sample:
    """Format a conversation. ``solution`` is preferred to ``answer``; ``reasoning`` comes before it."""
    columns = columns_of(record)
    turns = listed_of(columns)
    if turns is None:
        turns = pair_of(columns, answers=("solution", *ANSWERS))
        reasoning = first_text(columns, ("reasoning", "rationale"))
        if turns and reasoning:
            turns[-1].message["reasoning_content"] = reasoning
    return _conversation_or_text(turns, columns)


def code(record: Record, _: Tokens) -> Sample:
    """Format a conversation. An answer in a column of its own is code; it gets a fence if it has none."""
    columns = columns_of(record)
    turns = listed_of(columns)
    if turns is None:
        turns = pair_of(columns, _CODE_QUESTIONS, _CODE_ANSWERS)
        if turns:
            turns[-1] = turns[-1]._replace(content=_fenced(str(turns[-1].content), columns))
    return _conversation_or_text(turns, columns)


def tool_use(record: Record, _: Tokens) -> Sample:
    """Format a conversation with tools. An answer in a column of its own may be a tool call."""
    columns = columns_of(record)
    turns = listed_of(columns) or _called(columns)
    return _conversation_or_text(turns, columns)


def git(record: Record, tokens: Tokens) -> Sample:
    """Format a change of a file (``old_contents``, ``new_contents`` and ``subject``), or a conversation."""
    columns = columns_of(record)
    subject = first_text(columns, ("subject", "message"))
    new = first_text(columns, ("new_contents",))
    if not subject or not new:
        return conversation(record, tokens)
    old = first_text(columns, ("old_contents",))
    asked = f"{subject}\n{_fenced(old, columns)}" if old else subject
    return sample_of([turn("user", asked), turn("assistant", _fenced(new, columns))], columns)


def _conversation_or_text(turns: list[RecordTurn] | None, columns: Columns) -> Sample:
    if turns is None and first_text(columns, ("text",)):
        return _passed(columns)
    return sample_of(required(turns, columns), columns)


def _passed(columns: Columns) -> Sample:
    passed = first_text(columns, ("text",))
    if not passed:
        raise Rejected("no text")
    return {"text": passed}


def _fenced(answer: str, columns: Columns) -> str:
    if "```" in answer:
        return answer
    language = first_text(columns, _LANGUAGES) or "python"
    line_end = "" if answer.endswith("\n") else "\n"
    return f"```{language}\n{answer}{line_end}```"


def _called(columns: Columns) -> list[RecordTurn] | None:
    """Return a question and the tool calls that answer it; an answer that cannot be parsed as calls is text."""
    questions = ("query", *QUESTIONS)
    asked = question_of(columns, questions)
    try:
        calls = calls_of(first(columns, _TOOL_ANSWERS))
    except Rejected:
        return pair_of(columns, questions, _TOOL_ANSWERS)
    if asked is None or not calls:
        return None
    reply = turn("assistant", "")
    reply.message["tool_calls"] = calls
    return [*asked, reply]
