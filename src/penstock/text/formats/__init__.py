"""Formats: from a record of any dataset to a conversation. One function per dtype; ``register`` adds your own."""

from penstock.text.errors import Rejected
from penstock.text.formats.format import Format, FormatFunction, Modality, modality_of
from penstock.text.formats.registry import dtypes, find, register, require_tokens
from penstock.text.formats.sample import ContentPart, Message, Sample, ToolCall
from penstock.text.formats.trees import conversations

__all__ = [
    "ContentPart",
    "Format",
    "FormatFunction",
    "Message",
    "Modality",
    "Rejected",
    "Sample",
    "ToolCall",
    "conversations",
    "dtypes",
    "find",
    "modality_of",
    "register",
    "require_tokens",
]
