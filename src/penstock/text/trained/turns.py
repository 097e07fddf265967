"""Where the turns of a conversation begin and end in the text that a chat template wrote. Knows no template by name.

Between two neighbouring messages stands a gap: the end of one turn, and the header of the next.

    <|im_start|>user\\nHello!<|im_end|>\\n<|im_start|>assistant\\nHi.<|im_end|>\\n
    └────── gap ─────┘      └─────────────── gap ─────────────┘   └── gap ──┘

A turn of the assistant begins where the generation prompt ends: render the messages before it with a generation prompt,
and see what follows the last of them. It ends where the template ends after it: render the messages up to it, and see
what follows. The same gaps come again and again, so the split of each is kept.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from penstock.text.errors import Rejected
from penstock.text.trained.borders import Borders, common_length, common_pieces
from penstock.text.trained.layouts import TurnLayout, TurnSpan, plain_shape
from penstock.text.trained.marks import Spot
from penstock.text.trained.spots import Conversation, Render, SpansNotFound, locate
from penstock.text.trained.weights import Message

Kept = TypeVar("Kept")
MAX_KEPT = 1024  # gaps, and layouts
MAX_KEPT_LENGTH = 16_384  # characters of a gap, or of all gaps of a layout


class TurnFinder:
    """Finds turns in the texts of one template.

    Args:
        borders: Text around the turns of the template.
    """

    def __init__(self, borders: Borders) -> None:
        self._borders = borders
        self._splits: dict[object, int] = {}
        self._closings: dict[object, tuple[str, int]] = {}
        self._layouts: dict[object, TurnLayout] = {}

    def find(self, messages: Sequence[Message], render: Render, text: str, wanted: Sequence[int]) -> list[TurnSpan]:
        """Return the turns of messages in a text, with the end token and without the header.

        Args:
            messages: Conversation.
            render: Function that renders messages.
            text: Conversation, rendered.
            wanted: Messages to find.

        Raises:
            SpansNotFound: If a wanted message is not found.
            Rejected: If the template leaves out its tool calls, or the header of the first message.
        """
        if self._borders.ends_otherwise:
            raise SpansNotFound("it ends a conversation with more than the end of the last turn")
        shape = plain_shape(messages)
        layout = self._layouts.get((shape, *wanted)) if shape else None
        turns = layout.find(messages, text) if layout else None
        if turns is None:
            conversation = locate(messages, render, text, wanted)
            turns = self._found(conversation, set(wanted))
            if shape:
                layout = TurnLayout.of(text, conversation.spots, turns)
                _keep(self._layouts, (shape, *wanted), layout, sum(map(len, layout.gaps)))
        return turns

    def _found(self, conversation: Conversation, wanted: Collection[int]) -> list[TurnSpan]:
        spots = [None, *conversation.spots, None]
        turns = []
        for before, spot, after in zip(spots, spots[1:], spots[2:], strict=False):
            if spot is not None and spot.message in wanted:
                start = self._start(conversation, before, spot)
                turns.append(TurnSpan(spot.message, start, self._end(conversation, spot, after)))
        return turns

    def _start(self, conversation: Conversation, before: Spot | None, spot: Spot) -> int:
        if conversation.role(spot) != "assistant":
            return conversation.begin(spot)
        begin = 0 if before is None else before.end
        if begin > spot.start:
            raise SpansNotFound("it mixes messages of a conversation")
        gap = conversation.text[begin : spot.start]
        key = ("start", gap, conversation.role(before))
        return begin + self._split(key, lambda: self._header(conversation, before, spot, gap))

    def _header(self, conversation: Conversation, before: Spot | None, spot: Spot, gap: str) -> int:
        """Return the length of the header in the gap before a turn of the assistant."""
        tail = conversation.tail(spot.message, prompt=True) if spot.message else None
        ended = conversation.tail(spot.message, prompt=False) if tail else None
        if tail and gap.startswith(tail):
            # After an answer, a template may write no generation prompt, and yet a header before the next answer.
            header = self._borders.header_end(gap[len(tail) :]) if tail == ended else None
            return len(tail) + (header or 0)
        if tail and ended and tail.startswith(ended) and gap.startswith(ended):
            prompt = tail[len(ended) :]
            if self._borders.header_end(prompt) is None:  # it opens the reasoning in a turn that goes on
                return len(ended) + common_pieces(gap[len(ended) :], prompt)
        if conversation.role(before) == "assistant" and not gap.strip():
            return 0  # the template merged two turns
        # The generation prompt may say more than the header: it opens the reasoning, too.
        common = 0 if tail is None else common_length(gap, tail)
        if common and not gap[common:].strip():
            return common
        end = self._borders.header_end(gap)
        if end is not None:
            return end
        if not spot.message:
            return self._first_header(gap)
        raise SpansNotFound("the header of a turn of the assistant was not found", gap[-200:])

    def _first_header(self, gap: str) -> int:
        """As ``_header``, for a conversation that begins with the assistant: no generation prompt can be rendered."""
        prompt = self._borders.generation_prompt
        tokens = (token for token in self._borders.special_tokens if token in prompt)
        headers = [prompt[: prompt.index(token) + len(token)] for token in tokens]
        if any(map(gap.endswith, headers)):
            return len(gap)
        raise Rejected("the conversation begins with the assistant, and the chat template shows no header there")

    def _end(self, conversation: Conversation, spot: Spot, after: Spot | None) -> int:
        finish = len(conversation.text) if after is None else after.start
        if finish < spot.end:
            raise SpansNotFound("it mixes messages of a conversation")
        gap = conversation.text[spot.end : finish]
        if conversation.messages[spot.message].get("tool_calls"):
            return spot.end + self._call_end(conversation, spot, after, gap)
        key = (f"end {conversation.role(spot)}", gap, conversation.role(after))
        end = spot.end + self._split(key, lambda: self._terminator(conversation, spot, after, gap))
        # A template may write a message into the turn of another one, so that no end follows the whitespace after it.
        return end if conversation.role(spot) == "assistant" else max(end, conversation.finish(spot))

    def _terminator(self, conversation: Conversation, spot: Spot, after: Spot | None, gap: str) -> int:
        """Return how much of the gap after a turn belongs to it: no whitespace, unless it is all there is."""
        tail = conversation.tail(spot.message + 1, prompt=False)
        if tail is not None and gap.startswith(tail.rstrip() or tail):
            at = len(tail.rstrip() or tail)
            stops = self._borders.stops if conversation.role(spot) == "assistant" else ()
            return at + next((len(stop) for stop in stops if gap.startswith(stop, at)), 0)
        token = self._borders.end_token.match(gap) if self._borders.end_token else None
        if token is not None:
            return token.end()  # a template may end the last turn with a token of its own
        common = common_length(gap, tail or "")
        spaces = len(gap) - common - len(gap[common:].lstrip())
        rest = (tail or "")[common:].strip()
        if rest in self._borders.special_tokens and gap.startswith(rest, common + spaces):
            return common + spaces + len(rest)  # the last turn has other whitespace before its end token
        if conversation.role(spot) == conversation.role(after) == "assistant" and not gap.strip():
            return 0
        if conversation.role(spot) != "assistant" and after is not None:
            # The template writes both messages into one turn: what stands before its end belongs to this one.
            return len(gap[: common_length(gap, tail or "")].rstrip("<[ \n"))
        raise SpansNotFound("the end of a turn was not found", gap[:200])

    def _call_end(self, conversation: Conversation, spot: Spot, after: Spot | None, gap: str) -> int:
        """As ``_terminator``, for a gap that begins with the arguments of a tool call, and so is always new.

        Its rest from the end token on is kept. This saves one rendering per call: 100 calls in a row take 44 ms
        instead of 660.
        """
        followed = after is not None and after.message == spot.message + 1
        key = (conversation.role(spot), conversation.role(after))
        closing, token_length = self._closings.get(key, ("", 0)) if followed else ("", 0)
        if closing and gap.endswith(closing):
            return len(gap) - len(closing) + token_length
        at = self._terminator(conversation, spot, after, gap)
        token = next((token for token in self._borders.special_tokens if gap[:at].endswith(token)), None)
        if followed and token:
            _keep(self._closings, key, (token + gap[at:], len(token)), len(gap) - at)
        return at

    def _split(self, key: tuple[str, str, str | None], find: Callable[[], int]) -> int:
        at = self._splits.get(key)
        if at is None:
            at = find()
            _keep(self._splits, key, at, len(key[1]))
        return at


def _keep(kept: dict[object, Kept], key: object, value: Kept, length: int) -> None:
    if len(kept) >= MAX_KEPT:
        kept.clear()
    if length <= MAX_KEPT_LENGTH:
        kept[key] = value
