"""How a chat template begins and ends a turn of the assistant, found once by rendering short conversations."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property

from penstock.text.errors import Rejected
from penstock.text.trained.jinja import PROBE, SOME_CALL, SOME_TOOL, Jinja
from penstock.text.trained.weights import Message

_ASKED = f"{PROBE}user"
_ANSWERED = f"{PROBE}assistant"
_NEXT = f"{PROBE}next"
# A text in pieces: a tag, a word in brackets, a word, any other character.
_PIECE = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]|\w+|\s|.")


class Borders:
    """The text before and after the turns of one template.

    Args:
        jinja: Template.
        special_tokens: Special tokens by which a turn may end.
    """

    def __init__(self, jinja: Jinja, special_tokens: Iterable[str]) -> None:
        self._jinja = jinja
        self.special_tokens = sorted(set(special_tokens), key=len, reverse=True)
        either = "|".join(map(re.escape, self.special_tokens))
        self.end_token = re.compile(rf"\s*(?:{either})") if either else None
        self._user = jinja.message({"role": "user", "content": _ASKED})
        self._assistant = jinja.message({"role": "assistant", "content": _ANSWERED})

    @cached_property
    def generation_prompt(self) -> str:
        """The generation prompt; empty if the template has none."""
        without = self._text(self._user)
        prompted = self._text(self._user, prompt=True)
        # Without a prompt, some templates end the conversation with a token of its own.
        common = len(without) if prompted.startswith(without) else common_pieces(prompted, without)
        prompt = prompted[common:]
        return "" if PROBE in prompt else prompt

    @cached_property
    def headers(self) -> list[str]:
        """Beginnings of the generation prompt by which a turn of the assistant is known, the longest first.

        The prompt may say more than the header of a turn: it opens the reasoning, too. The shortest beginning is the
        first one that does not also stand before a turn of the user.
        """
        prompt = self.generation_prompt
        again = self._text(self._user, self._assistant, self._next("user"))
        before_user = again.partition(_ANSWERED)[2].partition(_NEXT)[0] or prompt
        beginnings = (prompt[: piece.end()] for piece in _PIECE.finditer(prompt))
        known = [each for each in beginnings if each.strip() and (each == prompt or each not in before_user)]
        return known[::-1]

    def header_end(self, gap: str) -> int | None:
        """Return where the last header of a turn of the assistant ends in a text; None if there is none."""
        found = next((header for header in self.headers if header in gap), None)
        return None if found is None else gap.rindex(found) + len(found)

    @cached_property
    def ends_otherwise(self) -> bool:
        """Whether a conversation ends with more than the end of its last turn.

        For example a generation prompt that was not requested, or instructions for the next turn. Special tokens do not
        count.
        """
        if not self._answered:
            return False
        if not (self.generation_prompt or self._between.startswith(self._after_user)):
            return True
        goes_on = self._text(self._user, self._assistant, self._next("user")).partition(_ANSWERED)[2]
        more = self._after_answer[common_pieces(self._after_answer, goes_on) :] if goes_on else ""
        return bool((self.end_token.sub("", more) if self.end_token else more).strip())

    @cached_property
    def around(self) -> tuple[str, str]:
        """The text before and after a turn of the assistant; empty where it is not known.

        Before it stands what its header and the generation prompt have in common, also in the middle of a
        conversation. Without a header, the end of the user's turn stands there.
        """
        if not self._answered:
            return "", ""
        header = self._last_header.removesuffix(self.opening)
        return header if header.strip() else self._after_user.strip(), self._after_answer.rstrip()

    @cached_property
    def opening(self) -> str:
        """What the generation prompt adds to the header of a turn, as in Qwen 3.5: it opens the reasoning."""
        goes_on = _after(self._text(self._user, self._assistant, self._next("user")), _ASKED)
        middle = goes_on.partition(_ANSWERED)[0].removeprefix(self._after_user)
        common = common_pieces(self._last_header, middle)
        return self._last_header[common:] if self._last_header[:common].strip() else ""

    @property
    def _last_header(self) -> str:
        """What the header of the last turn and the generation prompt have in common."""
        prompted = _after(self._text(self._user, prompt=True), _ASKED)
        common = self._between[: common_pieces(self._between, prompted)]
        return common.removeprefix(self._after_user) or self._between.removeprefix(self._after_user)

    @cached_property
    def _answered(self) -> str:
        """A question and its answer; empty if the template refuses them."""
        return self._text(self._user, self._assistant)

    @property
    def _after_user(self) -> str:
        return _after(self._text(self._user), _ASKED)

    @property
    def _between(self) -> str:
        """The text between a question and its answer."""
        return _after(self._answered, _ASKED).rpartition(_ANSWERED)[0]

    @property
    def _after_answer(self) -> str:
        """The text after the last answer of a conversation."""
        return _after(self._answered, _ANSWERED)

    @cached_property
    def stop(self) -> str:
        """The token that ends a turn only if the user goes on, as in GLM-4.5: the first one after it."""
        if self._after_answer.strip():
            return ""  # the template ends turns itself
        written = self._text(self._user, self._assistant, self._next("user"))
        return self._first_token(written.partition(_ANSWERED)[2].removeprefix(self._after_answer))

    @cached_property
    def call_stop(self) -> str:
        """As ``stop``, of a turn that calls tools: the token that follows it when a tool answers."""
        if not self.stop:
            return ""
        calling = {**self._assistant, "tool_calls": [SOME_CALL]}
        last = self._text(self._user, calling)
        written = self._text(self._user, calling, self._next("tool"))
        if not last or last.endswith(self.stop) or not written.startswith(last):
            return ""
        return self._first_token(written[len(last) :])

    @property
    def stops(self) -> Iterator[str]:
        """All tokens that end a turn beside those that the template writes after it."""
        return filter(None, (self.stop, self.call_stop))

    @cached_property
    def never_stop(self) -> bool:
        """Whether no trained text ends a turn of the assistant: a model does not learn to stop."""
        if not self._answered or not self._jinja.has_generation:
            return bool(self._answered) and not self._after_answer and not self.stop
        text, blocks = self._jinja.text_and_blocks([self._user, self._assistant], None)
        return bool(blocks) and not _after(text[: blocks[-1][1]], _ANSWERED)

    def _first_token(self, text: str) -> str:
        found = self.end_token.match(text) if self.end_token else None
        return "" if found is None or found[0].strip() == self._jinja.bos else found[0]

    def _next(self, role: str) -> Message:
        more = {"tool_call_id": SOME_CALL["id"], "name": SOME_CALL["function"]["name"]} if role == "tool" else {}
        return self._jinja.message({"role": role, "content": _NEXT, **more})

    def _text(self, *messages: Message, prompt: bool = False) -> str:
        """Return messages as text; empty if the template refuses them."""
        for tools in (None, [SOME_TOOL]):  # some templates are only for conversations with tools
            with suppress(Rejected):
                return self._jinja.text(messages, tools, prompt=prompt)
        return ""


def _after(text: str, said: str) -> str:
    """Return the text after a part of it; empty if the part is missing."""
    return text.rpartition(said)[2] if said in text else ""


def common_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def common_pieces(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts in whole tags and words."""
    at = 0
    for first, second in zip(_PIECE.finditer(one), _PIECE.finditer(other), strict=False):
        if first[0] != second[0]:
            break
        at = first.end()
    return at
