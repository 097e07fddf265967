"""The template that a tokenizer brings with it, and what is trained of the text that it writes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from penstock.config.errors import ConfigError
from penstock.text.borders import Borders
from penstock.text.errors import Rejected
from penstock.text.expanding import expanded
from penstock.text.jinja import SOME_TOOL, Jinja, Tools
from penstock.text.layouts import Turn
from penstock.text.marks import Spot
from penstock.text.rendered import Rendered, Span, whole
from penstock.text.spots import Render, SpansNotFound, locate
from penstock.text.templates import Sample, marked_spans
from penstock.text.trained import Message, TrainOn, message_weights, with_system
from penstock.text.turns import Turns

NO_STOP = "the chat template ends the assistant's turns with nothing, so that a model does not learn to stop"
NO_REASONING = "the chat template leaves out all reasoning"
NO_WORDS = "the chat template leaves out what the assistant says beside tool calls"


class ChatTemplate:
    """Writes conversations with the tokenizer's own chat template, exactly as ``apply_chat_template`` does.

    Tools and reasoning are handed to the template, which decides what becomes of them. A template that writes the date
    always gets the same one (``penstock.text.jinja.TODAY``).

    The trained part of a turn of the assistant is what the model has to write after the generation prompt, up to the
    end of the turn: reasoning, content and tool calls as the template writes them, with the template's end token,
    without the header and without whitespace after the end token. Where the template has ``{% generation %}`` blocks,
    it is what stands in them. What stands for a medium is never trained.

    A ``text`` is left as it is. Its trained parts are those between the header and the end of a turn of the assistant,
    as the template writes them; all of it, if it has no such turn.

    Args:
        tokenizer: a tokenizer of transformers that has a chat template.
        train_on: which messages are trained: the assistant's, the last of the assistant's, or everything.

    Raises:
        ConfigError: If the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any, *, train_on: TrainOn = "assistant") -> None:
        if not tokenizer.chat_template:
            raise ConfigError(
                "the tokenizer has no chat template: give the special tokens in chat.tokens, or set "
                "tokenizer.chat_template"
            )
        added = (token.content for token in tokenizer.added_tokens_decoder.values())
        special_tokens = [token for token in (*tokenizer.all_special_tokens, *added) if token.strip()]
        self._train_on = train_on
        tokens = tokenizer.special_tokens_map
        self._without_tools = _Writer(Jinja(tokenizer.get_chat_template(), tokens), special_tokens)
        self._with_tools = self._without_tools
        if tokenizer.get_chat_template(tools=[SOME_TOOL]) != tokenizer.get_chat_template():
            self._with_tools = _Writer(Jinja(tokenizer.get_chat_template(tools=[SOME_TOOL]), tokens), special_tokens)

    def render(self, sample: Sample, *, system: str | None = None) -> Rendered:
        """Return a sample as text; see ``penstock.text.templates.Template``.

        Raises:
            Rejected: If the template refuses the messages.
            SpansNotFound: If the trained part of the text is not found; a ``Rejected``, too.
            ConfigError: If the sample has media, and the template takes text only.
        """
        if sample.get("messages") is None:
            return self._ready(sample["text"])
        tools = sample.get("tools") or None
        messages = with_system(sample["messages"], system)
        weights = message_weights(messages, self._train_on)
        writer = self._with_tools if tools else self._without_tools
        return writer.write(messages, tools, weights, everything=self._train_on == "all")

    def _ready(self, text: str) -> Rendered:
        borders = self._without_tools.borders
        before, after = borders.around
        if before and before in text and not after and self._train_on != "all":
            raise Rejected("a text with turns, and the chat template ends turns without a token")
        spans = marked_spans(text, before, after, self._train_on)
        document = not (before and before in text)
        if not document and self._train_on != "all":
            spans = tuple(_unopened(span, text, borders.opening) for span in spans)
        return Rendered(text, spans, document=document)


class _Writer:
    """Writes with one of a tokenizer's templates: some tokenizers have another one for conversations with tools."""

    def __init__(self, jinja: Jinja, special_tokens: Iterable[str]) -> None:
        self.jinja = jinja
        self.borders = Borders(jinja, special_tokens)
        self._turns = Turns(self.borders)

    def write(self, messages: list[Message], tools: Tools, weights: list[float], *, everything: bool) -> Rendered:
        made = [self.jinja.message(message) for message in messages]
        render = partial(self.jinja.text, tools=tools)
        wanted = [number for number, weight in enumerate(weights) if weight != (1.0 if everything else 0.0)]
        if self.jinja.has_generation and wanted and not everything:
            text, blocks = self.jinja.text_and_blocks(made, tools)
            ranges = self._generated(made, render, text, blocks, weights)
        else:
            text = render(made)
            ranges = self._turns.find(made, render, text, wanted) if wanted else []
            if made and made[-1]["role"] == "assistant" and weights[-1]:
                text, ranges = self._stopped(text, ranges, made[-1])
        spans = tuple(
            Span(start, end, weights[number])
            for number, start, end in sorted(ranges, key=attrgetter("start"))
            if start < end
        )
        losses = tuple(self._losses(made, text)) if any(weights) else ()
        rendered = Rendered(text, whole(text, spans) if everything else spans, bos=False, losses=losses)
        kinds = _media_in(made)
        if not kinds:
            return rendered
        placeholders = {kind: self.jinja.placeholder(kind) for kind in kinds}
        return expanded(rendered, placeholders, {kind: [placeholders[kind]] * count for kind, count in kinds.items()})

    def _stopped(self, text: str, turns: list[Turn], last: Message) -> tuple[str, list[Turn]]:
        """Return a text with the stop of its last turn, which some templates write only when a conversation goes on."""
        stop = self.borders.call_stop if last.get("tool_calls") else self.borders.stop
        if not stop:
            return text, turns
        end = len(text) + len(stop)
        final = max((turn.end for turn in turns), default=0)
        return text + stop, [turn._replace(end=end) if turn.end == final else turn for turn in turns]

    def _losses(self, messages: list[Message], text: str) -> Iterator[str]:
        """Yield what a model can't learn from a text, although the conversation has it."""
        reasoning = [each for message in messages if message["role"] == "assistant" for each in _reasoning(message)]
        if reasoning and not any(each in text for each in reasoning):
            yield NO_REASONING
        words = [each for message in messages if message.get("tool_calls") for each in _words(message)]
        if words and not any(each in text for each in words):
            yield NO_WORDS
        if self.borders.never_stop:
            yield NO_STOP

    def _generated(
        self, messages: list[Message], render: Render, text: str, blocks: list[tuple[int, int]], weights: list[float]
    ) -> list[Turn]:
        """Return the blocks with the message that each belongs to; other turns that are trained, as they are found."""
        assistant = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        wanted = [number for number, weight in enumerate(weights) if weight]
        if wanted == assistant and len({weights[number] for number in wanted}) == 1 and blocks:
            calling = [number for number in wanted if messages[number].get("tool_calls")]
            if calling:
                with suppress(SpansNotFound):  # the blocks show what is trained; only calls may be left out of them
                    locate(messages, render, text, calling)
            return [Turn(assistant[0], start, end) for start, end in blocks]  # all have the same weight
        spots = locate(messages, render, text, wanted).spots
        speakers = _speakers(spots, assistant, blocks) if assistant else []
        turns = [Turn(speaker, *block) for speaker, block in zip(speakers, blocks, strict=False)]
        for number in wanted:
            if number in assistant and all(turn.message != number for turn in turns):
                raise SpansNotFound("its generation blocks hold nothing of a message", f"message {number + 1}")
        turns = [turn for turn in turns if turn.message in wanted]
        others = [number for number in wanted if number not in assistant]
        return turns + (self._turns.find(messages, render, text, others) if others else [])


def _unopened(span: Span, text: str, opening: str) -> Span:
    """Return a span without what the generation prompt has already."""
    return span._replace(start=span.start + len(opening)) if text.startswith(opening, span.start) else span


def _reasoning(message: Message) -> Iterator[str]:
    """Yield the reasoning of a message, which may stand in its content, too."""
    given = message.get("reasoning_content")
    if isinstance(given, str) and given.strip():
        yield given.strip()
    content = message["content"]
    if isinstance(content, str) and "</think>" in content:
        thought = content.partition("</think>")[0].rpartition("<think>")[2].strip()
        if thought:
            yield thought


def _words(message: Message) -> Iterator[str]:
    """Yield the texts of a message, without its reasoning."""
    content = message["content"]
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    for text in texts:
        said = text.rpartition("</think>")[2].strip()
        if said:
            yield said


def _media_in(messages: Sequence[Message]) -> Counter[str]:
    """Return how many media of each kind stand in messages."""
    contents = [message["content"] for message in messages if not isinstance(message["content"], str)]
    return Counter(part["type"] for content in contents for part in content if part["type"] != "text")


def _speakers(spots: list[Spot], assistant: list[int], blocks: list[tuple[int, int]]) -> list[int]:
    """Return the message of the assistant to which each block belongs.

    Raises:
        SpansNotFound: If that is not clear: marks may show only some of the messages.
    """
    found = {spot.message: spot for spot in spots}
    if found.keys() >= set(assistant):
        return [_speaker(spots, assistant, end) for _, end in blocks]
    known = [(found[number], *block) for number, block in zip(assistant, blocks, strict=False) if number in found]
    touching = all(spot.start <= end and start <= spot.end for spot, start, end in known)
    if len(blocks) != len(assistant) or not touching:
        raise SpansNotFound("its generation blocks do not show which message each belongs to")
    return assistant


def _speaker(spots: list[Spot], assistant: list[int], end: int) -> int:
    """Return the message of the assistant to which a block belongs that ends here. It may stand beside its content."""
    begun = [spot for spot in spots if spot.start < end]
    later = [spot for spot in spots if spot.start >= end]
    nearest = [spot.message for spot in (*begun[-1:], *later, *begun[::-1]) if spot.message in assistant]
    return nearest[0] if nearest else assistant[0]
