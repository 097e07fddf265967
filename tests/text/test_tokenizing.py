"""Which token begins where: at added tokens without offsets, elsewhere by offsets, and the same either way."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, processors

from penstock.text.tokenizing import Tokenizing, _Offsets
from tests.text.made_tokenizers import byte_level, spaces_in_words, whole_words

KINDS: dict[str, Callable[..., Any]] = {"bytes": byte_level, "spaces": spaces_in_words, "words": whole_words}
PIECES = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<s", "|>", " ", "\n", "Paris", " is", "Größe", "東京🌧️", "<unk>"]
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)


def backend_of(kind: str, *, adds: bool) -> Tokenizer:
    backend = KINDS[kind]().backend_tokenizer
    if adds:
        known = [(token, backend.token_to_id(token)) for token in ("<s>", "</s>")]
        backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=known)
    return backend


class Counted:
    """A tokenizer that counts the texts whose offsets were asked for."""

    def __init__(self, backend: Tokenizer) -> None:
        self._backend = backend
        self.with_offsets = 0

    def encode_batch(self, texts: list[str], **options: Any) -> list[Any]:
        self.with_offsets += len(texts)
        return self._backend.encode_batch(texts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(sorted(KINDS)), st.booleans(), st.booleans(), st.lists(st.tuples(TEXTS, st.booleans()), max_size=4)
)
def test_tokens_and_borders_are_those_of_the_offsets(
    kind: str, adds: bool, complete: bool, asked: list[tuple[str, bool]]
) -> None:
    backend = backend_of(kind, adds=adds)
    texts = [text for text, _ in asked]
    borders = [set(range(len(text) + 1)) if everywhere else ends_of_added(text) for text, everywhere in asked]
    made = Tokenizing(backend).tokenize(texts, borders, complete=complete)
    for text, own, tokens in zip(texts, borders, made, strict=True):
        encoding = backend.encode(text, add_special_tokens=not complete)
        assert tokens.ids.tolist() == encoding.ids
        expected = _Offsets(encoding, len(text)).first_from
        # Where the first token stands for no character, such as a space that was put in front, both are right.
        assert {at: tokens.first_from(at) for at in own if at} == {at: expected(at) for at in own if at}


def ends_of_added(text: str) -> set[int]:
    return {0, len(text)} | {
        at
        for token in ("<|im_start|>", "<|im_end|>")
        for start in range(len(text))
        if text.startswith(token, start)
        for at in (start, start + len(token))
    }


def test_offsets_are_not_asked_for_at_added_tokens() -> None:
    counted = Counted(byte_level().backend_tokenizer)
    text = "<|im_start|>What is it?<|im_end|>"
    [made] = Tokenizing(counted).tokenize([text], [{12, len(text)}], complete=True)
    assert made.first_from(12) == 1
    assert made.first_from(len(text)) == len(made.ids)
    assert counted.with_offsets == 0
    Tokenizing(counted).tokenize([text], [{13}], complete=True)
    assert counted.with_offsets == 1


@pytest.mark.parametrize("way", ["lstrip", "rstrip", "single_word"])
def test_added_tokens_that_take_in_what_is_beside_them_are_found_by_offsets(way: str) -> None:
    backend = byte_level().backend_tokenizer
    backend.add_tokens([AddedToken("<odd>", **{way: True})])
    counted = Counted(backend)
    Tokenizing(counted).tokenize(["a <odd> b"], [{2}], complete=True)
    assert counted.with_offsets == 1
