"""One sample on its way: media to tensors, text to tokens and labels. What ``_process_sample`` and ``_tokenize`` do."""

from collections.abc import Mapping
from typing import Any

from penstock.compat.multimodal.links import open_link
from penstock.compat.multimodal.tokens import padded_tokens
from penstock.media.tensors import MediaTensors
from penstock.recipes.collate import FLAGS, IGNORED

Sample = dict[str, Any]

# Keys of a sample with media, and what makes a tensor of each.
_MAKERS = {
    "image": "image",
    "video": "video",
    "audio": "audio",
    "gen_images": "image",
    "gen_videos": "video",
    "target_audio": "audio",
    "speaker_ref": "speaker_ref",
}
_RENAMED = {"image": "images", "video": "videos", "audio": "audio"}
_ADDED = ("target_audio", "speaker_ref", "gen_images", "gen_videos", "gen_prompts", "text")


def with_tensors(sample: Sample, media: MediaTensors) -> Sample:
    """Replace the media of a sample by tensors.

    Args:
        sample: as its format function made it. It is changed.
        media: makes the tensors.

    Raises:
        BadMedia: If a medium can't be used.
    """
    for key, kind in _MAKERS.items():
        value = sample.get(key)
        if value is not None:
            make = getattr(media, kind)
            several = kind == "image" and _is_several(value)
            sample[key] = [make(each, open_link) for each in value] if several else make(value, open_link)
    return sample


def _is_several(value: Any) -> bool:
    """Return whether a value is a list of images, and not one image as nested lists of numbers."""
    return isinstance(value, list | tuple) and bool(value) and not isinstance(value[0], int | float | list | tuple)


def tokenized(sample: Mapping[str, Any], tokenizer: Any, max_length: int) -> Sample:
    """Return the final sample: tokens, labels, media, and what is known of it.

    Labels are the tokens themselves, −100 on padding. The attention mask says what is padding: the pad token may
    also be the end of a text.

    Args:
        sample: with media as tensors.
        tokenizer: of transformers, or called in the same way.
        max_length: tokens of the sample.
    """
    input_ids, attention_mask = padded_tokens(tokenizer, sample.get("text", ""), max_length)
    result = {"input_ids": input_ids, "attention_mask": attention_mask}
    if sample.get("is_training", True):
        result["labels"] = input_ids.masked_fill(attention_mask == 0, IGNORED)
    for key, name in _RENAMED.items():
        if key in sample:
            result[name] = sample[key]
    result["dtype"] = sample.get("dtype", "text")
    for key in FLAGS:
        result[key] = sample.get(key, False)
    result |= {key: sample[key] for key in _ADDED if sample.get(key) is not None}
    return result
