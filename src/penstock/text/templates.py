"""The template of a dict of tokens: each turn between the start and end token of its role. No tokenizer."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from penstock.config.errors import ConfigError
from penstock.text.errors import Rejected
from penstock.text.mediakinds import IN_TEXT, MEDIA_KINDS
from penstock.text.rendered import Medium, Rendered, TextSpan, whole
from penstock.text.trained import Message, TrainOn, message_weights

Sample = Mapping[str, Any]
_TOKENS = {kind.name: kind.tokens for kind in MEDIA_KINDS if kind.tokens}
_PARTS = {kind.name: kind.tokens for kind in IN_TEXT}  # of messages
TOOLS_INTRODUCTION = "You have access to the following tools:\n"


class Template(Protocol):
    """How a sample becomes text. Several threads may call it at the same time."""

    def render(self, sample: Sample, *, system: str | None = None) -> Rendered:
        """Return a sample as text.

        Args:
            sample: Sample with ``messages`` and ``tools``, or with a complete ``text``.
            system: System message for a conversation without one.

        Raises:
            Rejected: If the sample cannot be rendered.
        """
        ...


class TokensTemplate:
    """Writes each message between the tokens of its role, as ``tokens["user_start"] … tokens["user_end"]``.

    The trained part of a message is what it says, with the end token and without the start token. A message says, in
    this order: its reasoning between ``think_start`` and ``think_end``, its content, and its tool calls as JSON, each
    between ``tool_call`` and ``tool_call_end``. A medium is its start token and its end token. Tools are listed in the
    system message. The answer of a tool stands between ``tool_start`` and ``tool_end``, or as a message of the user
    where there are no such tokens.

    A ``text`` is left as it is. Its trained parts are those between ``assistant_start`` and ``assistant_end``; all of
    it, if it has no ``assistant_start``.

    Args:
        tokens: Special tokens by name.
        train_on: Messages that are trained: the assistant's, the assistant's last, or everything.
    """

    def __init__(self, tokens: Mapping[str, str], *, train_on: TrainOn = "assistant") -> None:
        self._tokens = dict(tokens)
        self._known_ends: dict[str, tuple[str, str]] = {}  # by role
        self._train_on = train_on
        known = {kind: ends for kind, ends in _TOKENS.items() if all(self._tokens.get(end) for end in ends)}
        pairs = (f"(?P<{kind}>{re.escape(tokens[start] + tokens[end])})" for kind, (start, end) in known.items())
        self._media = re.compile("|".join(pairs)) if known else None

    def render(self, sample: Sample, *, system: str | None = None) -> Rendered:
        """Return a sample as text; see ``Template``.

        Raises:
            Rejected: If a message has an unknown role or content, or the text has more placeholders than the sample has
                media.
            ConfigError: If a token that the sample needs is missing.
        """
        if sample.get("messages") is None:
            return self._ready(sample["text"])
        messages = _with_tools(with_system(sample["messages"], system), sample.get("tools"))
        weights = message_weights(messages, self._train_on)
        written: list[str] = []
        spans = []
        at = 0
        for message, weight in zip(messages, weights, strict=True):
            start, end = self._ends(message["role"])
            said = "".join(self._said(message))
            written += (start, said, end)
            at += len(start) + len(said) + len(end)
            spans.append(TextSpan(at - len(said) - len(end), at, weight))
        text = "".join(written)
        media = self._media_in(text)
        _require_media(media, messages, sample)
        if self._train_on == "all":
            return Rendered(text, whole(text, tuple(spans)), media)
        return Rendered(text, tuple(span for span in spans if span.weight), media)

    def _ready(self, text: str) -> Rendered:
        start = self._token("assistant_start")
        spans = marked_spans(text, start, self._token("assistant_end"), self._train_on)
        return Rendered(text, spans, self._media_in(text), document=start not in text)

    def _media_in(self, text: str) -> tuple[Medium, ...]:
        if self._media is None:
            return ()
        return tuple(Medium(found.lastgroup or "", *found.span()) for found in self._media.finditer(text))

    def _token(self, name: str) -> str:
        try:
            return self._tokens[name]
        except KeyError:
            raise ConfigError(f"tokens: {name} is missing, and a sample needs it; add it to the tokens") from None

    def _ends(self, role: str) -> tuple[str, str]:
        found = self._known_ends.get(role)
        if found is None:
            found = self._known_ends[role] = self._find_ends(role)
        return found

    def _find_ends(self, role: str) -> tuple[str, str]:
        if role == "tool" and "tool_start" not in self._tokens:
            role = "user"
        if role not in ("system", "user", "assistant", "tool"):
            raise Rejected(f"unknown role {role!r}")
        return self._token(f"{role}_start"), self._token(f"{role}_end")

    def _said(self, message: Message) -> Iterator[str]:
        if message.get("reasoning_content"):
            yield self._token("think_start") + message["reasoning_content"] + self._token("think_end")
        content = message.get("content")
        if isinstance(content, str):
            yield content
        else:
            yield from map(self._part, content or ())
        for call in message.get("tool_calls") or ():
            said = _json(call["function"], "tool calls", ensure_ascii=False)
            yield self._token("tool_call") + said + self._token("tool_call_end")

    def _part(self, part: Mapping[str, Any]) -> str:
        kind = part["type"]
        if kind == "text":
            return str(part["text"])
        if kind not in _PARTS:
            raise Rejected(f"unknown content {kind!r}")
        return "".join(map(self._token, _PARTS[kind]))


def _require_media(places: Sequence[Medium], messages: Sequence[Message], sample: Sample) -> None:
    """Reject a sample whose text has more placeholders than media: a record may have written one itself."""
    found = sum(place.kind in _PARTS for place in places)
    if not found:
        return
    contents = [message.get("content") or () for message in messages]
    parts = sum(part["type"] in _PARTS for parts in contents if not isinstance(parts, str) for part in parts)
    given = [sample.get(kind.sample_key) for kind in IN_TEXT]
    listed = sum(len(media) if isinstance(media, list | tuple) else media is not None for media in given)
    if found > max(parts, listed):
        raise Rejected(f"{found} placeholders for media in the text, and {max(parts, listed)} media")


def _with_tools(messages: list[Message], tools: Sequence[object] | None) -> list[Message]:
    """Return the messages with the tools listed in the system message, which is added if there is none."""
    if not tools:
        return messages
    listed = TOOLS_INTRODUCTION + _json(tools, "tools", indent=2)
    if not messages or messages[0]["role"] != "system":
        return [{"role": "system", "content": listed}, *messages]
    content = messages[0].get("content") or ""
    if isinstance(content, str):
        listed = f"{content}\n\n{listed}" if content else listed
        return [{**messages[0], "content": listed}, *messages[1:]]
    return [{**messages[0], "content": [*content, {"type": "text", "text": f"\n\n{listed}"}]}, *messages[1:]]


def with_system(messages: Sequence[Message], system: str | None) -> list[Message]:
    """Return the messages, with the default system message first if they have none."""
    if not system or (messages and messages[0]["role"] == "system"):
        return list(messages)
    return [{"role": "system", "content": system}, *messages]


def _json(value: object, what: str, **options: Any) -> str:
    """Return a value as JSON. Dates and bytes of tables are rejected."""
    try:
        return json.dumps(value, **options)
    except (TypeError, ValueError):
        raise Rejected(f"{what} are not JSON") from None


def marked_spans(text: str, start: str, end: str, train_on: TrainOn) -> tuple[TextSpan, ...]:
    """Return the trained spans of a complete text.

    Args:
        text: Complete text.
        start: Text before the assistant's turns; empty if it is not known.
        end: Text after them. It is trained.
        train_on: Turns that are trained. Without a turn of the assistant, the whole text is.

    Raises:
        Rejected: If a turn of the assistant has no end and is not the last.
    """
    turns = text.split(start) if start and train_on != "all" else [text]
    if len(turns) == 1:
        return (TextSpan(0, len(text)),)
    spans = []
    at = len(turns[0])
    for number, turn in enumerate(turns[1:], 2):
        at += len(start)
        found = turn.find(end)
        if found < 0 and number < len(turns):
            raise Rejected("a turn of the assistant has no end token")
        spans.append(TextSpan(at, at + (len(turn) if found < 0 else found + len(end))))
        at += len(turn)
    return tuple(spans[-1:] if train_on == "last" else spans)
