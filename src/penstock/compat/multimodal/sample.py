"""The final sample: text to tokens and labels. What ``_tokenize`` does."""

from collections.abc import Mapping
from typing import Any

from penstock.compat.multimodal.tokens import padded_tokens
from penstock.text.formats.sample import FLAGS
from penstock.text.labels import NO_LABEL
from penstock.text.mediakinds import IN_TEXT, MEDIA_KINDS

Sample = dict[str, Any]

_ADDED = (*(kind.document_key for kind in MEDIA_KINDS if not kind.in_text), "gen_prompts", "text")


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
        result["labels"] = input_ids.masked_fill(attention_mask == 0, NO_LABEL)
    for kind in IN_TEXT:
        if kind.document_key in sample:
            result[kind.batch_key] = sample[kind.document_key]
    result["dtype"] = sample.get("dtype", "text")
    for key in FLAGS:
        result[key] = sample.get(key, False)
    result |= {key: sample[key] for key in _ADDED if sample.get(key) is not None}
    return result
