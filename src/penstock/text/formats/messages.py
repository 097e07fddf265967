"""Turns of a conversation, from the forms of datasets to messages with the four roles.

Media are not placed yet: a turn's content is a text, which may hold tags, or a list of texts and media.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from penstock.text.errors import Rejected
from penstock.text.formats.columns import first, first_text
from penstock.text.formats.loose import parsed
from penstock.text.formats.sample import Kind, Message, Role
from penstock.text.formats.tools import as_text, calls_of

_NAMES: dict[Role, tuple[str, ...]] = {
    "system": ("system", "developer", "instruction"),
    "user": ("user", "human", "prompter"),
    "assistant": ("assistant", "gpt", "chatgpt", "bot", "model", "ai", "function_call", "tool_call"),
    "tool": ("tool", "observation", "function", "function_response", "tool_response", "ipython", "environment"),
}
ROLES: dict[str, Role] = {name: role for role, names in _NAMES.items() for name in names}
"""The role that a name in a dataset means. Names are compared in lower case, with ``_`` for ``-``."""

_CALLS = ("function_call", "tool_call")
_PLAIN_ROLES = ("system", "user", "assistant")
_REASONING_PARTS = ("reasoning", "thinking")
_CALL_PARTS = ("tool_call", "function_call")
_KINDS: tuple[Kind, ...] = get_args(Kind)
_PART_KINDS: dict[str, Kind] = {
    f"{prefix}{kind}{suffix}": kind for kind in _KINDS for prefix in ("", "input_") for suffix in ("", "_url")
}


class TurnMedium(NamedTuple):
    """A medium in a turn. Without a value it stands for the next one of its kind in the record's columns."""

    kind: Kind
    value: Any = None


Content = str | list[str | TurnMedium]


class RecordTurn(NamedTuple):
    """A message whose media are not placed yet."""

    message: Message
    content: Content


def turns_of(value: Any) -> list[RecordTurn]:
    """Return the turns of a conversation.

    Args:
        value: List of turns, or its JSON. A turn is a dict with ``role`` or ``from`` and ``content``, ``value`` or
            ``text``; a dict with ``user`` and ``assistant``; or a text, where user and assistant take turns.

    Raises:
        Rejected: If it is something else, has an unknown role, or no turn.
    """
    listed = _listed(value)
    if not listed:
        raise Rejected("no messages")
    turns = []
    for number, each in enumerate(listed):
        if isinstance(each, str):
            turns.append(turn("user" if number % 2 == 0 else "assistant", each))
        elif not isinstance(each, Mapping):
            raise Rejected("a message is not a dict")
        elif "role" in each or "from" in each:
            turns.append(_turn(each))
        elif "user" in each and "assistant" in each:
            turns += [turn("user", each["user"]), turn("assistant", each["assistant"])]
        else:
            raise Rejected("a message without a role")
    return turns


def turn(role: Role, content: Any) -> RecordTurn:
    """Return a turn with a role and content only."""
    return RecordTurn({"role": role, "content": ""}, _content(content))


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        try:
            value = parsed(value)
        except ValueError:
            raise Rejected("messages are not JSON") from None
    if not isinstance(value, list | tuple):
        raise Rejected("messages are not a list")
    return value


def _turn(each: Mapping[str, Any]) -> RecordTurn:
    if len(each) == 2 and (plain := _plain(each)) is not None:
        return plain
    name = first_text(each, ("role", "from")).lower().replace("-", "_")
    if not name:
        raise Rejected("a message without a role")
    if name not in ROLES:
        raise Rejected(f"unknown role {name[:40]!r}")
    message: Message = {"role": ROLES[name], "content": ""}
    content = first(each, ("content", "value", "text"))
    if name in _CALLS:
        message["tool_calls"] = calls_of(content)
        content = None
    elif calls := calls_of(first(each, ("tool_calls", "function_call"))):
        message["tool_calls"] = calls
    if message["role"] == "assistant" and isinstance(content, list | tuple):
        content = _take_parts(content, message)
    if message["role"] == "tool" and not isinstance(content, str | list | None):
        content = as_text(content)
    _keep_options(each, message)
    return RecordTurn(message, _content(content))


def _plain(each: Mapping[str, Any]) -> RecordTurn | None:
    """Return a turn that is only text, as most are: looking for other keys took half of a format's time."""
    role = each.get("role")
    content = each.get("content")
    if role in _PLAIN_ROLES and isinstance(content, str):
        return RecordTurn({"role": role, "content": ""}, content)
    return None


def _take_parts(content: Sequence[Any], message: Message) -> list[Any]:
    """Move reasoning and tool calls from parts to keys of the message, and return the other parts.

    Raises:
        Rejected: If they are not in the order in which templates write these keys.
    """
    kinds = [str(part.get("type")) if isinstance(part, Mapping) else "" for part in content]
    ranks = [0 if kind in _REASONING_PARTS else 2 if kind in _CALL_PARTS else 1 for kind in kinds]
    if ranks != sorted(ranks):
        raise Rejected("the parts of a message are not in the order reasoning, text, tool calls")
    names = ("value", "text", "content")
    parts = list(zip(ranks, kinds, content, strict=True))
    reasoning = [first_text(part, (*names, kind)) for rank, kind, part in parts if rank == 0]
    calls = [call for rank, kind, part in parts if rank == 2 for call in calls_of(first(part, (*names, kind)) or part)]
    if any(reasoning):
        message["reasoning_content"] = "\n".join(filter(None, reasoning))
    if calls:
        message["tool_calls"] = [*message.get("tool_calls", []), *calls]
    return [part for rank, _, part in parts if rank == 1]


def _keep_options(each: Mapping[str, Any], message: Message) -> None:
    reasoning = first_text(each, ("reasoning_content", "reasoning", "thinking"))
    if reasoning and message["role"] == "assistant":
        message["reasoning_content"] = reasoning
    if name := first_text(each, ("name",)):
        message["name"] = name
    if answered := first_text(each, ("tool_call_id",)):
        message["tool_call_id"] = answered
    # What is no `train` and no weight is found, and rejected, where they are used.
    loss = each.get("loss")
    is_measured = isinstance(loss, float) and loss not in (0, 1)  # a loss that somebody measured
    train = first(each, ("train",) if is_measured else ("train", "loss"))
    if train is not None:
        message["train"] = train
    weight = first(each, ("loss_weight", "weight"))
    if weight is not None:
        message["weight"] = weight


def _content(value: Any) -> Content:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        raise Rejected("the content of a message is not text")
    pieces = [each if isinstance(each, str) else _piece(each) for each in value]
    texts = [each for each in pieces if isinstance(each, str)]
    return "".join(texts) if len(texts) == len(pieces) else pieces


def _piece(part: Any) -> str | TurnMedium:
    """Return the text or the medium of a part."""
    if not isinstance(part, Mapping):
        raise Rejected("a part of a message is not a dict")
    name = part.get("type")
    if name == "text":
        return first_text(part, ("text", "value", "content"))
    if name not in _PART_KINDS:
        raise Rejected(f"unknown part {str(name)[:40]!r}")
    kind = _PART_KINDS[name]
    value = first(part, (name, kind, f"{kind}_url", "url", "path", "value", "data", "base64"))
    if isinstance(value, Mapping) and set(value) <= {"url", "detail"}:
        value = value.get("url")
    return TurnMedium(kind, value)
