"""One chat template, rendered by transformers. Knows what content it takes; knows nothing of training.

transformers is imported when a text is rendered.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache, cached_property
from typing import Any

from penstock.config.errors import ConfigError
from penstock.text.errors import Rejected
from penstock.text.prefixes import common_length
from penstock.text.trained import OWN_KEYS, Message

TODAY = date(2026, 1, 1)  # what a template gets that asks for the date: a batch must not depend on the day
Tools = Sequence[Mapping[str, Any]] | None
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_NOW = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
_CALL_OF_NOW = re.compile(r"strftime_now\s*\(")
_PROBE = "zqprobeqz"
# What an expression of a template raises for messages that it does not expect.
_MESSAGE_ERRORS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
_tracking = threading.Lock()  # the compiled template, which all threads share, keeps the ranges while it is rendered


class Jinja:
    """One chat template.

    Args:
        source: the text of the template.
        tokens: the special tokens that it may name, such as ``bos_token``.

    Raises:
        ConfigError: If it asks for the date in a way that can't be replaced: batches would depend on the day.
    """

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        self._source = _NOW.sub(lambda call: repr(TODAY.strftime(call[2])), source)
        if _CALL_OF_NOW.search(self._source):
            raise ConfigError(
                "the chat template of the tokenizer asks for the date with a format that is no text, so that batches "
                "would depend on the day: write the date into the template, or a format as in strftime_now('%Y-%m-%d')"
            )
        self._tokens = dict(tokens)
        self.has_generation = _GENERATION.search(source) is not None
        self._placeholders: dict[str, str] = {}

    def text(self, messages: Sequence[Message], tools: Tools = None, *, prompt: bool = False) -> str:
        """Return messages as text, with a generation prompt if asked for.

        Raises:
            Rejected: If the template refuses the messages.
            ConfigError: If it is no valid template.
        """
        return self._rendered(messages, tools, prompt=prompt, track=False)[0]

    def text_and_blocks(self, messages: Sequence[Message], tools: Tools) -> tuple[str, list[tuple[int, int]]]:
        """Return messages as text, and the characters that stand in ``{% generation %}`` blocks."""
        with _tracking:
            return self._rendered(messages, tools, prompt=False, track=True)

    def _rendered(
        self, messages: Sequence[Message], tools: Tools, *, prompt: bool, track: bool
    ) -> tuple[str, list[tuple[int, int]]]:
        try:
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
    def generation_prompt(self) -> str:
        """What the template writes before a turn of the assistant; empty if it has no generation prompt."""
        asked = [{"role": "user", "content": self._content(_PROBE)}]
        try:
            without = self.text(asked)
            prompted = self.text(asked, prompt=True)
        except Rejected:
            return ""
        return prompted.removeprefix(without) if prompted.startswith(without) else ""

    @cached_property
    def borders(self) -> tuple[str, str]:
        """What stands before and after a turn of the assistant in a text; empty where that is not known.

        Before it stands what its header and the generation prompt have in common: the prompt may open the reasoning,
        too. Without a header, the end of the user's turn stands there.
        """
        asked, answered = (_PROBE + role for role in ("user", "assistant"))
        user = {"role": "user", "content": self._content(asked)}
        assistant = {"role": "assistant", "content": self._content(answered)}
        try:
            after_user = self.text([user]).rpartition(asked)[2]
            prompted = self.text([user], prompt=True).rpartition(asked)[2]
            between, _, after = self.text([user, assistant]).rpartition(asked)[2].rpartition(answered)
        except Rejected:
            return "", ""
        common = between[: common_length(between, prompted)]
        header = common.removeprefix(after_user) or between.removeprefix(after_user)
        return header if header.strip() else after_user.strip(), after.rstrip()

    @cached_property
    def takes_text(self) -> bool:
        """Whether content may be a text, as in most templates."""
        return _PROBE in self._probed(_PROBE)

    @cached_property
    def takes_parts(self) -> bool:
        """Whether content may be a list of parts, as in templates of multimodal models."""
        written = self._probed([{"type": "text", "text": _PROBE}])
        return _PROBE in written and not re.search(r"['\"]type['\"]", written)

    def placeholder(self, kind: str) -> str:
        """Return what the template writes for a medium, such as ``image``.

        Raises:
            Rejected: If it writes nothing for one.
        """
        found = self._placeholders.get(kind)
        if found is None:
            found = self._find_placeholder(kind)
            self._placeholders[kind] = found
        return found

    def _find_placeholder(self, kind: str) -> str:
        before = {"type": "text", "text": f"{_PROBE}a"}
        after = {"type": "text", "text": f"{_PROBE}b"}
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
        """Return a message as the template takes it: without keys of ours, and without keys that have no value.

        Raises:
            ConfigError: If it has media, and the template takes text only.
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


@cache
def _render_function() -> Any:  # its own types say less than it takes and returns
    from transformers.utils.chat_template_utils import render_jinja_template

    return render_jinja_template


def _refusal(error: Exception) -> Exception:
    """Return what an error of a template means: it is wrong itself, or it does not take the messages."""
    from jinja2 import TemplateError, TemplateSyntaxError

    if isinstance(error, TemplateSyntaxError):
        return ConfigError(f"the chat template of the tokenizer, line {error.lineno}: {error.message}")
    if isinstance(error, (TemplateError, *_MESSAGE_ERRORS)):
        return Rejected(f"refused by the chat template: {error}")
    return error
