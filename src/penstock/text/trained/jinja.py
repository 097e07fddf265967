"""One chat template, rendered by transformers. Knows what content it takes; knows nothing of training.

transformers is imported when a text is rendered.
"""

import json
import logging
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, cached_property
from typing import Any, NamedTuple

from penstock.config.errors import ConfigError
from penstock.runtime.waiting import Overdue
from penstock.text.errors import Rejected
from penstock.text.trained.weights import OWN_KEYS, Message

log = logging.getLogger(__name__)

TODAY = date(2026, 1, 1)  # what a template gets that asks for the date: a batch must not depend on the day
Tools = Sequence[Mapping[str, Any]] | None
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_NOW = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
_CALL_OF_NOW = re.compile(r"strftime_now\s*\(")
OVERDUE_SECONDS = 10.0  # time per record after which a warning is logged
PROBE = "zqprobeqz"
SOME_CALL: Mapping[str, Any] = {  # some templates want an identifier of nine letters
    "id": "call00000",
    "type": "function",
    "function": {"name": "some", "arguments": {"zqkeyqz": PROBE}},
}
SOME_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {"name": "some", "description": "Some.", "parameters": {"type": "object", "properties": {}}},
}
# What an expression of a template raises for messages that it does not expect.
_MESSAGE_ERRORS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
_tracking = threading.Lock()  # the compiled template, which all threads share, keeps the ranges while it is rendered


def _report_overdue() -> None:
    log.warning(
        "the chat template of the tokenizer has taken more than %.0f s for one record: it may never end; stop the run "
        "with Ctrl-C, and look for loops in the template",
        OVERDUE_SECONDS,
    )


_overdue = Overdue(OVERDUE_SECONDS, _report_overdue)


class Jinja:
    """One chat template.

    Args:
        source: Text of the template.
        tokens: Special tokens that it may name, such as ``bos_token``.

    Raises:
        ConfigError: If it asks for the date in a way that can't be replaced: batches would depend on the day.
    """

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        self._source = _NOW.sub(lambda call: repr(TODAY.strftime(call[2])), source)
        if _CALL_OF_NOW.search(self._source):
            raise ConfigError(
                "the chat template of the tokenizer asks for the date with a format that is not a string, so that "
                "batches would depend on the day: write the date into the template, or a format as in "
                "strftime_now('%Y-%m-%d')"
            )
        self._tokens = dict(tokens)
        self.bos = self._tokens.get("bos_token")
        self.has_generation = _GENERATION.search(source) is not None
        self._placeholders: dict[str, str] = {}

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_plain"}  # a compiled template

    def text(self, messages: Sequence[Message], tools: Tools = None, *, prompt: bool = False) -> str:
        """Return messages as text, with a generation prompt if asked for.

        Raises:
            Rejected: If the template refuses the messages.
            ConfigError: If the template is not valid.
        """
        return self._rendered(self._formed(messages), tools, prompt=prompt)[0]

    def text_and_blocks(self, messages: Sequence[Message], tools: Tools) -> tuple[str, list[tuple[int, int]]]:
        """Return messages as text, and the character ranges of ``{% generation %}`` blocks."""
        with _tracking:
            return self._rendered(self._formed(messages), tools, track=True)

    def _formed(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages with tool calls in the form that the template takes."""
        if not any("tool_calls" in message for message in messages) or self._call_form == _CallForm():
            return messages
        return list(map(self._call_form.apply, messages))

    def _rendered(
        self, messages: Sequence[Message], tools: Tools, *, prompt: bool = False, track: bool = False
    ) -> tuple[str, list[tuple[int, int]]]:
        try:
            with _overdue.watched():
                if tools is None and not track and self._plain is not None and all(map(_is_plain, messages)):
                    return self._plain.render(messages, prompt), []
                texts, ranges = _render_function()(
                    conversations=[messages],
                    tools=tools,
                    chat_template=self._source,
                    add_generation_prompt=prompt,
                    return_assistant_tokens_mask=track,
                    **self._tokens,
                )
        except Exception as error:
            raise _refusal(error) from None
        return texts[0], ranges[0] if track else []

    @cached_property
    def _plain(self) -> "_PlainRendering | None":
        if any(type(token) is not str for token in self._tokens.values()):
            return None
        compiled = _compile_function()(self._source)
        return None if compiled is None else _PlainRendering(compiled, self._tokens)

    @cached_property
    def takes_text(self) -> bool:
        """Whether content may be a text, as in most templates."""
        return PROBE in self._probed(PROBE)

    @cached_property
    def takes_parts(self) -> bool:
        """Whether content may be a list of parts, as in templates of multimodal models."""
        written = self._probed([{"type": "text", "text": PROBE}])
        return PROBE in written and not re.search(r"['\"]type['\"]", written)

    @cached_property
    def _call_form(self) -> "_CallForm":
        """The form of tool calls that the template takes, found by rendering a call."""
        for as_text in (False, True):
            with_empty = self._called(_CallForm(as_text))
            without = self._called(_CallForm(as_text, no_content=True))
            if with_empty:
                return _CallForm(as_text, no_content=0 < len(without) < len(with_empty))
        return _CallForm()

    def _called(self, form: "_CallForm") -> str:
        """Return a turn with a tool call as text; empty if the template refuses it or does not write it in full."""
        asked = {"role": "user", "content": self._content("Some.")}
        made = {"role": "assistant", "content": self._content(""), "tool_calls": [SOME_CALL]}
        written = ""
        for tools in ([SOME_TOOL], None):
            with suppress(Rejected):
                written, _ = self._rendered([asked, form.apply(made)], tools)
        as_python = repr(SOME_CALL["function"]["arguments"])
        return written if PROBE in written and as_python not in written else ""

    def placeholder(self, kind: str) -> str:
        """Return what the template writes for a medium, such as ``image``.

        Raises:
            Rejected: If the template writes nothing for it.
        """
        found = self._placeholders.get(kind)
        if found is None:
            found = self._find_placeholder(kind)
            self._placeholders[kind] = found
        return found

    def _find_placeholder(self, kind: str) -> str:
        before = {"type": "text", "text": f"{PROBE}a"}
        after = {"type": "text", "text": f"{PROBE}b"}
        written = self._probed([before, {"type": kind}, after])
        between = written.partition(before["text"])[2].rpartition(after["text"])[0].strip()
        if between:
            return between
        # Some templates write all media of a turn before its text.
        without = self._probed([before])
        head = written.partition(before["text"])[0]
        moved = head[len(without.partition(before["text"])[0]) :].strip()
        if not moved:
            raise Rejected(f"the chat template writes nothing for a medium of kind {kind}")
        return moved

    def _probed(self, content: object) -> str:
        try:
            return self.text([{"role": "user", "content": content}])
        except Rejected:
            return ""

    def message(self, message: Message) -> Message:
        """Return a message as the template takes it, without Penstock's own keys and keys without a value.

        Raises:
            ConfigError: If the message has media and the template takes text only.
        """
        made = {name: value for name, value in message.items() if value is not None and name not in OWN_KEYS}
        if not made.get("tool_calls"):
            made.pop("tool_calls", None)
        made["content"] = self._content(made.get("content") or "")
        return made

    def _content(self, content: Any) -> Any:
        if isinstance(content, str):
            return content if self.takes_text or not self.takes_parts else [{"type": "text", "text": content}]
        kinds = {part["type"] for part in content}
        if kinds <= {"text"} and self.takes_text:
            return "".join(part["text"] for part in content)
        if not self.takes_parts:
            medium = ", ".join(sorted(kinds - {"text"}))
            raise ConfigError(
                f"the chat template of the tokenizer takes text only, and a sample has {medium or 'parts'} in its "
                "content: use the template of a multimodal model, or a dict of tokens"
            )
        return list(content)


class _PlainRendering:
    """Renders plain messages with a template that transformers has compiled: 25 µs instead of 50.

    What is left out makes plain data of what a template may see, which these messages are already, and copies the
    globals of all templates for each rendering.
    """

    def __init__(self, template: Any, tokens: Mapping[str, str]) -> None:
        self._template = template
        self._seen = {**template.globals, "tools": None, "documents": None, **tokens}

    def render(self, messages: Sequence[Message], prompt: bool) -> str:
        template = self._template
        environment = template.environment
        seen = {**self._seen, "messages": messages, "add_generation_prompt": prompt}
        context = environment.context_class(environment, seen, template.name, template.blocks)
        text: str = environment.concat(template.root_render_func(context))
        return text


class _CallForm(NamedTuple):
    """How a turn that calls tools is handed to a template. Most take calls as they are.

    Attributes:
        as_text: Whether arguments must be JSON, as in DeepSeek-V3, and not a dict.
        no_content: Whether a turn that only calls tools has None as content. Some templates write an empty text as an
            answer.
    """

    as_text: bool = False
    no_content: bool = False

    def apply(self, message: Message) -> Message:
        if not message.get("tool_calls"):
            return message
        made = dict(message)
        if self.no_content and not made["content"]:
            made["content"] = None
        if self.as_text:
            made["tool_calls"] = list(map(_with_text, made["tool_calls"]))
        return made


def _with_text(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool call with its arguments as JSON, as the filter ``tojson`` of templates writes them."""
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"], ensure_ascii=False)}}


@cache
def _render_function() -> Any:  # its own types say less than it takes and returns
    from transformers.utils.chat_template_utils import render_jinja_template

    return render_jinja_template


@cache
def _compile_function() -> Any:
    from transformers.utils import chat_template_utils

    return getattr(chat_template_utils, "_compile_jinja_template", lambda source: None)  # noqa: ARG005


def _is_plain(message: Message) -> bool:
    """Return whether a message has a role and a text only."""
    return len(message) == 2 and type(message.get("role")) is str and type(message.get("content")) is str


def _refusal(error: Exception) -> Exception:
    """Return the error of the user's template, or of the messages, for an exception while rendering."""
    from jinja2 import TemplateError, TemplateSyntaxError

    if isinstance(error, TemplateSyntaxError):
        return ConfigError(f"the chat template of the tokenizer, line {error.lineno}: {error.message}")
    if isinstance(error, (TemplateError, *_MESSAGE_ERRORS)):
        return Rejected(f"refused by the chat template: {error}")
    return error
