"""A stand-in for a data module of multimodal training: change the import, keep the rest. See docs/multimodal.md."""

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
