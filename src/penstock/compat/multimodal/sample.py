"""The final sample: text to tokens and labels. What ``_tokenize`` does."""

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

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
        sample: Sample with media as tensors.
        tokenizer: Tokenizer of transformers, or a function with the same arguments.
        max_length: Tokens per sample.
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


def padded_tokens(tokenizer: Any, text: str, max_length: int) -> tuple[Tensor, Tensor]:
    """Return ``input_ids`` and ``attention_mask`` [max_length] of a text, cut or padded.

    Args:
        tokenizer: Tokenizer of transformers. Another one is called as the module calls it:
            ``tokenizer(text, max_length=…, truncation=True, padding="max_length", return_tensors="pt")``.
        text: Text to tokenize.
        max_length: Number of tokens.
    """
    if not _is_of_transformers(tokenizer):
        called = tokenizer(text, max_length=max_length, truncation=True, padding="max_length", return_tensors="pt")
        return called.input_ids.squeeze(0), called.attention_mask.squeeze(0)
    # Padding and tensors of transformers go through Python lists: 1.2 ms per text of 1,024 tokens, instead of 0.4 ms.
    encoding = tokenizer(text, max_length=max_length, truncation=True)
    input_ids = torch.full((max_length,), tokenizer.pad_token_id, dtype=torch.int64)
    attention_mask = torch.zeros(max_length, dtype=torch.int64)
    count = len(encoding.input_ids)
    here = slice(max_length - count, None) if tokenizer.padding_side == "left" else slice(count)
    input_ids[here] = torch.tensor(encoding.input_ids, dtype=torch.int64)
    attention_mask[here] = torch.tensor(encoding.attention_mask, dtype=torch.int64)
    return input_ids, attention_mask


def _is_of_transformers(tokenizer: Any) -> bool:
    package = sys.modules.get("transformers")  # it takes seconds to import, and a tokenizer of it has done so
    return package is not None and isinstance(tokenizer, package.PreTrainedTokenizerBase)
