"""The chat template of a tokenizer: sample -> text with trained spans. Finds no span itself."""

from typing import TYPE_CHECKING

from penstock.config.errors import ConfigError
from penstock.text.errors import Rejected
from penstock.text.rendered import Rendered, TextSpan
from penstock.text.templates import Sample, marked_spans, with_system
from penstock.text.trained import TemplateWriter, TrainOn, message_weights
from penstock.text.trained.jinja import SOME_TOOL

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class ChatTemplate:
    """Writes conversations with the tokenizer's own chat template, exactly as ``apply_chat_template`` does.

    Tools and reasoning are handed to the template, which decides what becomes of them. A template that writes the date
    always gets the same one (``penstock.text.trained.jinja.TODAY``).

    The trained part of a turn of the assistant is what the model has to write after the generation prompt, up to the
    end of the turn: reasoning, content and tool calls as the template writes them, with the template's end token,
    without the header and without whitespace after the end token. Where the template has ``{% generation %}`` blocks,
    it is what stands in them. What stands for a medium is never trained.

    A ``text`` is left as it is. Its trained parts are those between the header and the end of a turn of the assistant,
    as the template writes them; all of it, if it has no such turn.

    Args:
        tokenizer: Tokenizer of transformers with a chat template.
        train_on: Messages that are trained: the assistant's, the assistant's last, or everything.

    Raises:
        ConfigError: If the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", *, train_on: TrainOn = "assistant") -> None:
        if not tokenizer.chat_template:
            raise ConfigError(
                "the tokenizer has no chat template: give the special tokens in chat.tokens, or set "
                "tokenizer.chat_template"
            )
        added = (token.content for token in tokenizer.added_tokens_decoder.values())
        special_tokens = [token for token in (*tokenizer.all_special_tokens, *added) if token.strip()]
        self._train_on = train_on
        tokens = tokenizer.special_tokens_map
        plain = tokenizer.get_chat_template()
        for_tools = tokenizer.get_chat_template(tools=[dict(SOME_TOOL)])
        self._without_tools = TemplateWriter(plain, tokens, special_tokens)
        self._with_tools = self._without_tools
        if for_tools != plain:
            self._with_tools = TemplateWriter(for_tools, tokens, special_tokens)

    def render(self, sample: Sample, *, system: str | None = None) -> Rendered:
        """Return a sample as text; see ``penstock.text.templates.Template``.

        Raises:
            Rejected: If the template refuses the messages.
            SpansNotFound: If the trained part of the text is not found. It is a ``Rejected``.
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
            raise Rejected("the text has turns, but the chat template ends turns without a token")
        spans = marked_spans(text, before, after, self._train_on)
        document = not (before and before in text)
        if not document and self._train_on != "all":
            spans = tuple(_unopened(span, text, borders.opening) for span in spans)
        return Rendered(text, spans, document=document)


def _unopened(span: TextSpan, text: str, opening: str) -> TextSpan:
    """Return a span without the text that the generation prompt has already."""
    return span._replace(start=span.start + len(opening)) if text.startswith(opening, span.start) else span
