"""Messages and their loss weights -> text with trained spans, by one chat template. Knows no tokenizer."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

from penstock.text.expanding import expanded
from penstock.text.rendered import Rendered, TextSpan, whole
from penstock.text.trained.blocks import block_turns
from penstock.text.trained.borders import Borders
from penstock.text.trained.jinja import Jinja, Tools
from penstock.text.trained.layouts import TurnSpan
from penstock.text.trained.turns import TurnFinder
from penstock.text.trained.weights import Message

NO_STOP = "the chat template ends the assistant's turns with nothing, so that a model does not learn to stop"
NO_REASONING = "the chat template leaves out all reasoning"
NO_WORDS = "the chat template leaves out what the assistant says beside tool calls"


class TemplateWriter:
    """Writes conversations with one chat template, and finds what is trained in the text.

    Args:
        source: Text of the template.
        tokens: Special tokens that the template may name, such as ``bos_token``.
        special_tokens: Special tokens by which a turn may end.
    """

    def __init__(self, source: str, tokens: Mapping[str, str], special_tokens: Iterable[str]) -> None:
        self._jinja = Jinja(source, tokens)
        self.borders = Borders(self._jinja, special_tokens)
        self._turns = TurnFinder(self.borders)

    def write(
        self, messages: Sequence[Message], tools: Tools, weights: Sequence[float], *, everything: bool
    ) -> Rendered:
        """Return a conversation as text with its trained spans.

        Args:
            messages: Conversation.
            tools: Schemas of the tools that the assistant may call.
            weights: Loss weight of each message.
            everything: Whether headers and all other text are trained, too.

        Raises:
            Rejected: If the template refuses the messages.
            SpansNotFound: If a trained message is not found in the text.
            ConfigError: If a message has media and the template takes text only.
        """
        made = [self._jinja.message(message) for message in messages]
        render = partial(self._jinja.text, tools=tools)
        wanted = [number for number, weight in enumerate(weights) if weight != (1.0 if everything else 0.0)]
        if self._jinja.has_generation and wanted and not everything:
            text, blocks = self._jinja.text_and_blocks(made, tools)
            ranges = block_turns(made, render, text, blocks, weights)
            others = [number for number in wanted if made[number]["role"] != "assistant"]
            if others:
                ranges += self._turns.find(made, render, text, others)
        else:
            text = render(made)
            ranges = self._turns.find(made, render, text, wanted) if wanted else []
            if made and made[-1]["role"] == "assistant" and weights[-1]:
                text, ranges = self._stopped(text, ranges, made[-1])
        spans = tuple(
            TextSpan(start, end, weights[number])
            for number, start, end in sorted(ranges, key=attrgetter("start"))
            if start < end
        )
        losses = tuple(self._losses(made, text)) if any(weights) else ()
        rendered = Rendered(text, whole(text, spans) if everything else spans, bos=False, losses=losses)
        kinds = _media_in(made)
        if not kinds:
            return rendered
        placeholders = {kind: self._jinja.placeholder(kind) for kind in kinds}
        return expanded(rendered, placeholders, {kind: [placeholders[kind]] * count for kind, count in kinds.items()})

    def _stopped(self, text: str, turns: list[TurnSpan], last: Message) -> tuple[str, list[TurnSpan]]:
        """Return a text with the stop of its last turn, which some templates write only between turns."""
        stop = self.borders.call_stop if last.get("tool_calls") else self.borders.stop
        if not stop:
            return text, turns
        end = len(text) + len(stop)
        final = max((turn.end for turn in turns), default=0)
        return text + stop, [turn._replace(end=end) if turn.end == final else turn for turn in turns]

    def _losses(self, messages: list[Message], text: str) -> Iterator[str]:
        """Yield phrases for what the conversation has and a model can't learn from the text."""
        reasoning = [each for message in messages if message["role"] == "assistant" for each in _reasoning(message)]
        if reasoning and not any(each in text for each in reasoning):
            yield NO_REASONING
        words = [each for message in messages if message.get("tool_calls") for each in _words(message)]
        if words and not any(each in text for each in words):
            yield NO_WORDS
        if self.borders.never_stop:
            yield NO_STOP


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
    """Return the number of media in messages by kind."""
    contents = [message["content"] for message in messages if not isinstance(message["content"], str)]
    return Counter(part["type"] for content in contents for part in content if part["type"] != "text")
