"""A tokenizer is known by the tokens that it makes, however a release of its library writes it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from penstock.text.texts import Texts
from penstock.text.tokenizeridentity import tokenizer_identity
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level, spaces_in_words

WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c", "1", "2", "ab", "abc", "12", "A"]
MERGES = [("a", "b"), ("ab", "c"), ("1", "2")]


def backend(
    words: list[str] = WORDS, merges: list[tuple[str, str]] = MERGES, end: str | AddedToken = "</s>"
) -> Tokenizer:
    made = Tokenizer(models.BPE({word: n for n, word in enumerate(words)}, merges, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["<s>", end])
    return made


def changed(change: Callable[[Tokenizer], object]) -> Tokenizer:
    made = backend()
    change(made)
    return made


def put(name: str, value: Any) -> Callable[[Tokenizer], object]:
    return lambda made: setattr(made, name, value)


def test_the_digest_is_the_one_that_states_have() -> None:
    """Every release from 0.15 to 0.23 makes it. If another one makes other tokens, that is a finding."""
    assert tokenizer_identity(backend())[:16] == "63b2408124294079"


@pytest.mark.parametrize(
    "change",
    [
        put("decoder", decoders.ByteLevel()),
        put("pre_tokenizer", pre_tokenizers.Sequence([pre_tokenizers.Whitespace()])),
        put("normalizer", normalizers.Sequence([])),
        put("post_processor", processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])),
    ],
)
def test_what_changes_no_token_changes_no_digest(change: Callable[[Tokenizer], object]) -> None:
    made = changed(change)
    assert made.to_str() != backend().to_str()
    assert tokenizer_identity(made) == tokenizer_identity(backend())


@pytest.mark.parametrize(
    "made",
    [
        changed(put("pre_tokenizer", pre_tokenizers.Metaspace())),
        changed(
            put("pre_tokenizer", pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)]))
        ),
        changed(put("normalizer", normalizers.Lowercase())),
        changed(put("post_processor", processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)]))),
        changed(lambda made: made.add_tokens(["bc"])),
        backend(end=AddedToken("</s>", single_word=True)),
        backend(merges=MERGES[:2]),
        backend(merges=MERGES[::2]),
        backend([*WORDS[:3], "b", "a", *WORDS[5:]]),
        backend([*WORDS, "d"]),
    ],
)
def test_what_changes_tokens_changes_the_digest(made: Tokenizer) -> None:
    assert tokenizer_identity(made) != tokenizer_identity(backend())


def test_a_model_without_a_token_for_the_unknown_and_one_with_random_merges_have_a_digest() -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}))
    assert tokenizer_identity(words) == tokenizer_identity(words)
    random = backend()
    random.model.dropout = 0.5
    assert tokenizer_identity(random) == tokenizer_identity(random) != tokenizer_identity(backend())


@pytest.mark.parametrize("make", [byte_level, spaces_in_words])
def test_padding_truncation_and_the_padding_token_are_not_part_of_the_key(make: Any) -> None:
    plain = make(chat_template=CHATML)
    padding = copy.deepcopy(plain)
    padding.backend_tokenizer.enable_padding(length=7)
    padding.backend_tokenizer.enable_truncation(5)
    other = make(chat_template=CHATML, pad_token="<s>")
    assert Texts(plain).key == Texts(padding).key == Texts(other).key


def test_the_template_and_the_special_tokens_that_it_writes_are_part_of_the_key() -> None:
    template = "{% for m in messages %}<s>{{ m.content }}{{ cls_token }}{% endfor %}"
    texts = [
        Texts(byte_level(chat_template=CHATML)),
        Texts(byte_level(chat_template=CHATML + "\n")),
        Texts(byte_level(chat_template=CHATML, eos_token="<s>")),
        Texts(byte_level(chat_template=template, cls_token="<s>")),
        Texts(byte_level(chat_template=template, cls_token="</s>")),
        Texts(byte_level(chat_template=CHATML), max_length=7),
    ]
    assert len({each.key for each in texts}) == len(texts)
    assert Texts(byte_level(chat_template=CHATML, cls_token="<s>")).key == texts[0].key
