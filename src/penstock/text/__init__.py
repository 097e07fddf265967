"""Record -> text -> tokens: formats, chat templates, labels and packs. Opens no file and decodes no medium."""

from penstock.text.chattemplate import ChatTemplate
from penstock.text.labels import Encoded, Encoder, pad_id_of
from penstock.text.packs import Packs, deal
from penstock.text.rendered import Medium, Rendered, TextSpan
from penstock.text.rows import packed, padded, padding_free
from penstock.text.templates import Template, TokensTemplate
from penstock.text.trained import SpansNotFound

__all__ = [
    "ChatTemplate",
    "Encoded",
    "Encoder",
    "Medium",
    "Packs",
    "Rendered",
    "SpansNotFound",
    "Template",
    "TextSpan",
    "TokensTemplate",
    "deal",
    "packed",
    "pad_id_of",
    "padded",
    "padding_free",
]
