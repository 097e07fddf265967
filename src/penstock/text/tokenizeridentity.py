"""The digest of a tokenizer by what it does: equal in all releases of its library that make equal tokens.

A tokenizer could be known by the JSON that its library writes. But releases write the same tokenizer differently:
merges became pairs, parameters got other names, defaults were added. So it is known by its vocabulary, and by the ids
that it makes of texts: a few of many kinds, thousands of tokens of the vocabulary, and every added token. All rules
for normalizing, splitting and merging that are in use have a part in these.

Two tokenizers with one vocabulary that differ only in what none of these texts has are taken for the same one; so are
two that only put the borders of a token at other characters. A release that makes other tokens of any of these texts
makes another digest.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MOST_PROBED = 16_384  # tokens of the vocabulary, 0.1 s; all of 250,000 would take seconds at every start
_TOKENS_PER_TEXT = 32
_SPACES = str.maketrans("Ġ▁Ċ", "  \n")  # as vocabularies write a space and the end of a line
_TEXTS = (
    "",
    " ",
    "a",
    "Hello, world! It's 12:34 on 2024-07-26; you'll pay $1,234,567.89 (or 50% less).",
    "  leading, trailing and   inner    spaces\t\ttabs \n\n\n lines\r\n  ends  ",
    "CamelCase snake_case kebab-case ALLCAPS 'The' don't DON'T we'Ve l'été o’clock “quotes” …",
    "def f(x: int) -> list[str]:\n    return [f'{x!r}' for _ in range(10**9)]  # 0xff != 1e-5\n",
    '{"name": "get_weather", "arguments": {"city": "Paris", "n": [1, 2.5, null]}}',
    "<div class='a'>&amp;</div> https://example.com/a?b=c#d user@example.com C:\\\\path\\to",
    "Größe naïve ÀÉÎÕÜ ﬁ ½ ² ™ Ⅷ ｆｕｌｌ e\u0301 \u00a0\u200b\u200d\ufeff\u00ad",
    "東京で寿司を食べる。你好，世界！한국어 텍스트 ไทย العربية مرحبا עברית हिन्दी தமிழ் Привет Ελληνικά",
    "🌧️ 👩‍👩‍👧 🇮🇳 👍🏽 𝒳 𐍈 \U0001f9ff",
    "0 00 000 0000 1234567890 ١٢٣ ४५६ 3.14159 1/2 x²+y²",
    "\x00\x01\x7f\x80",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!!!!!!!!!!!!!!!!????----====____....",
    "<s> </s> <unk> <pad> [CLS] [SEP] <|im_start|>user\n<|im_end|> <0x0A>",
)


def tokenizer_identity(backend: "Tokenizer") -> str:
    """Return the digest of a tokenizer.

    Args:
        backend: Tokenizer of the package ``tokenizers``, without padding and truncation.
    """
    vocabulary = backend.get_vocab(with_added_tokens=True)
    pairs = sorted(zip(vocabulary.values(), vocabulary.keys(), strict=True))
    digest = hashlib.sha256(json.dumps(pairs).encode())
    if getattr(backend.model, "dropout", None):  # its tokens are random
        digest.update(f"dropout {backend.model.dropout}".encode())
        return digest.hexdigest()
    added = [token.content for _, token in sorted(backend.get_added_tokens_decoder().items())]
    some = [token for _, token in pairs[:: -(-len(pairs) // _MOST_PROBED) or 1]]
    for text in _probes(some, added):
        digest.update(_ids(backend, text, False))
    for text in _TEXTS:
        digest.update(_ids(backend, text, True))
    return digest.hexdigest()


def _probes(vocabulary: list[str], added: list[str]) -> Iterator[str]:
    yield from _TEXTS
    for at in range(0, len(vocabulary), _TOKENS_PER_TEXT):
        yield "".join(vocabulary[at : at + _TOKENS_PER_TEXT]).translate(_SPACES)
    for at in range(0, len(added), _TOKENS_PER_TEXT):  # with what they take of the text around them
        yield "".join(f"a{token}b {token} {token.lower()}" for token in added[at : at + _TOKENS_PER_TEXT])


def _ids(backend: "Tokenizer", text: str, adds: bool) -> bytes:
    try:
        ids = np.array(backend.encode(text, add_special_tokens=adds).ids, dtype=np.int32)
    except Exception:  # of this very class: the text has what such a vocabulary can't write
        return b"refused"
    return np.array([len(ids), *ids], dtype=np.int32).tobytes()
