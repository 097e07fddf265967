"""The one normaliser: finds the conversation of a record, whatever its columns are called."""

from collections.abc import Mapping
from typing import Any

from penstock.text.errors import Rejected
from penstock.text.formats.columns import Columns, first, first_text
from penstock.text.formats.media import placed
from penstock.text.formats.messages import RecordTurn, turn, turns_of
from penstock.text.formats.pairs import QUESTIONS, pair_of, preferred, prompted
from penstock.text.formats.sample import Kind, Sample
from penstock.text.formats.tools import described_in, system_text, tools_of
from penstock.text.formats.trees import best_path

TURNS = ("messages", "conversations", "conversation", "trajectory")
TOOLS = ("tools", "functions", "function_description")
SYSTEMS = ("system", "system_prompt", "system_message")


def listed_of(columns: Columns) -> list[RecordTurn] | None:
    """Return the turns of a record that lists them: messages, the best path of a tree, or prompt and completion.

    Of preferences these are the prompt and the answer that was chosen.

    Returns:
        Turns; None if the record lists none.

    Raises:
        Rejected: If the list cannot be used.
    """
    listed = first(columns, TURNS)
    if chosen := preferred(columns, listed):
        return chosen
    if listed is not None:
        return turns_of(best_path(listed) if _is_tree(listed) else listed)
    pairs = columns.get("texts")  # of user and assistant; a list of texts would be captions
    if isinstance(pairs, list) and pairs and isinstance(pairs[0], Mapping):
        return turns_of(pairs)
    prompt = columns.get("prompt")
    if isinstance(prompt, Mapping) and "replies" in prompt:
        return turns_of(best_path(prompt))
    if "parent_id" in columns and "message_id" in columns:
        raise Rejected("a single message of a tree")
    return prompted(columns)


def conversation_of(columns: Columns) -> list[RecordTurn] | None:
    """Return the turns of a record: those it lists, or a question and its answer.

    Returns:
        Turns; None if the record has neither.

    Raises:
        Rejected: If it has one of them, but it cannot be used.
    """
    return listed_of(columns) or pair_of(columns)


def required(turns: list[RecordTurn] | None, columns: Columns) -> list[RecordTurn]:
    """Return the turns.

    Raises:
        Rejected: If there are none.
    """
    if turns is None and first_text(columns, QUESTIONS):
        raise Rejected("no answer")
    if turns is None:
        raise Rejected(f"no conversation in the columns {', '.join(columns)}")
    return turns


def sample_of(turns: list[RecordTurn], columns: Columns, more: Mapping[Kind, tuple[str, ...]] | None = None) -> Sample:
    """Return the sample of a conversation, with the record's system prompt, tools and media.

    Args:
        turns: Conversation.
        columns: Columns of the record.
        more: Columns by kind of media, in place of the usual ones.

    Raises:
        Rejected: If no turn of the assistant has text, its answer is unwanted, or tags and media differ in number.
    """
    if str(columns.get("label")).lower() == "false":  # KTO's verdict on the answer
        raise Rejected("label: false")
    turns = [each for each in turns if each.content or each.message["role"] != "system"]
    system = first_text(columns, SYSTEMS)
    if system and all(each.message["role"] != "system" for each in turns):
        turns = [turn("system", system), *turns]
    if not any(_answers(each) for each in turns):
        raise Rejected("no assistant turn")
    sample = placed(turns, columns, more or {})
    tools = tools_of(first(columns, TOOLS))
    if tools and not described_in(system_text(sample["messages"]), tools):
        sample["tools"] = tools
    return sample


def _is_tree(listed: Any) -> bool:
    return isinstance(listed, list) and bool(listed) and isinstance(listed[0], Mapping) and "parent_id" in listed[0]


def _answers(each: RecordTurn) -> bool:
    message = each.message
    said = each.content or "tool_calls" in message or "reasoning_content" in message
    return message["role"] == "assistant" and bool(said)
