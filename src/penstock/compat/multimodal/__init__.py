"""Stands in for the ``data`` module of Xoron-Dev: ``TrueStreamingDataset``, ``collate_fn``, ``format_code`` and others.

Change the import, keep the rest; see docs/multimodal.md. "The module" and "the old class" mean those of Xoron-Dev.
Records are opened, indexed and read as those of chat runs (``pipelines/chat_records.py``). But functions and
hooks of the user make the samples.
"""

from penstock.compat.multimodal.dataset import TrueStreamingDataset
from penstock.recipes.collate import collate_fn
from penstock.text.formats.document import (
    format_code,
    format_conversation,
    format_generation,
    format_tool_use,
    format_video,
    format_vision,
    format_voice_asr,
    format_voice_tts,
)

__all__ = [
    "TrueStreamingDataset",
    "collate_fn",
    "format_code",
    "format_conversation",
    "format_generation",
    "format_tool_use",
    "format_video",
    "format_vision",
    "format_voice_asr",
    "format_voice_tts",
]
