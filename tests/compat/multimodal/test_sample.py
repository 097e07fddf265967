"""Tokens of transformers' tokenizers are those that the document's call gives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.compat.multimodal.sample import padded_tokens
from tests.text.made_tokenizers import byte_level, spaces_in_words, whole_words

TOKENIZERS = [byte_level(), byte_level(bos=True), spaces_in_words(), whole_words(), byte_level(padding_side="left")]
TOKENIZERS += [byte_level(truncation_side="left", padding_side="left")]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=range(len(TOKENIZERS)))
def test_tokens_are_those_of_the_documents_call(tokenizer: object) -> None:
    @settings(max_examples=25)
    @given(st.text(max_size=40), st.integers(2, 40))
    def check(text: str, length: int) -> None:
        called = tokenizer(text, max_length=length, truncation=True, padding="max_length", return_tensors="pt")  # type: ignore[operator]
        input_ids, attention_mask = padded_tokens(tokenizer, text, length)
        assert torch.equal(input_ids, called.input_ids[0].to(torch.int64))
        assert torch.equal(attention_mask, called.attention_mask[0].to(torch.int64))

    check()
