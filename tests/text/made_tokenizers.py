"""Fast tokenizers of several kinds, trained on a few sentences."""

from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.text.chat_templates import SPECIAL_TOKENS

TEXTS = [
    "You are a helpful assistant. What is the weather like in Paris? It is sunny, with 21 degrees.",
    '{"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}}',
    "Thank you! Größe, naïve, 東京 and 🌧️ are words, too.\n\nI have to think about this.\n",
    "user assistant system tool final analysis commentary json to=functions. Today Date: 26 Jul 2024",
]


def wrapped(backend: Tokenizer, **options: Any) -> PreTrainedTokenizerFast:
    options = {"eos_token": "</s>", "pad_token": "</s>", **options}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **options)


def byte_level(*, bos: bool = False, chat_template: str | None = None, **options: Any) -> PreTrainedTokenizerFast:
    """As of Llama 3, Qwen and gpt-oss: bytes are merged, every text can be encoded. With ``bos`` it adds <s>."""
    backend = Tokenizer.from_str(_byte_level())
    if bos:
        backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        options["bos_token"] = "<s>"
    return wrapped(backend, chat_template=chat_template, **options)


@cache
def _byte_level() -> str:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL_TOKENS, initial_alphabet=alphabet)
    )
    return str(backend.to_str())


def spaces_in_words(**options: Any) -> PreTrainedTokenizerFast:
    """As of Llama 2 and Mistral: a space belongs to the word that follows it."""
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", *SPECIAL_TOKENS]))
    return wrapped(backend, unk_token="<unk>", **options)


def whole_words(**options: Any) -> PreTrainedTokenizerFast:
    """Lower-case words and punctuation; spaces are in no token."""
    backend = Tokenizer(models.WordLevel(unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.train_from_iterator(TEXTS, trainers.WordLevelTrainer(special_tokens=["<unk>", *SPECIAL_TOKENS]))
    return wrapped(backend, unk_token="<unk>", **options)
