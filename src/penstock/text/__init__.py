"""Record -> text -> tokens: formats, chat templates, labels and packs. Opens no file and decodes no medium."""

from penstock.text.chattemplate import ChatTemplate
from penstock.text.labels import Encoded, Encoder, pad_id_of
from penstock.text.packs import Packs, deal
from penstock.text.rendered import Medium, Rendered, Span
from penstock.text.rows import packed, padded, padding_free
from penstock.text.spots import SpansNotFound
from penstock.text.templates import Template, TokensTemplate

__all__ = [
    "ChatTemplate",
    "Encoded",
    "Encoder",
    "Medium",
    "Packs",
    "Rendered",
    "Span",
    "SpansNotFound",
    "Template",
    "TokensTemplate",
    "deal",
    "packed",
    "pad_id_of",
    "padded",
    "padding_free",
]
