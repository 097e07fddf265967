"""Texts -> token ids, and which token begins where. Many texts per call; knows no label.

A fast tokenizer tells the characters of every token, which costs a fourth of its time. Most borders that are asked for
lie at added tokens, such as ``<|user|>``. A tokenizer splits a text at these before all else: the n-th added token of a
text is the n-th one among its tokens, and their characters need not be known.
"""

import re
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Ints = npt.NDArray[np.int64]


class Tokenized(NamedTuple):
    """A text as tokens.

    Attributes:
        ids: Token ids.
        first_from: Function from a border (see ``Tokenizing.tokenize``) to the first token that begins there or later;
            the number of tokens if there is none.
    """

    ids: Ints
    first_from: Callable[[int], int]


class Tokenizing:
    """Tokenizes texts. Any number of threads may use it.

    Args:
        backend: Tokenizer of the package ``tokenizers``, without padding and truncation.
    """

    def __init__(self, backend: "Tokenizer") -> None:
        self._backend = backend
        self._added = _AddedTokens(backend)

    def tokenize(self, texts: Sequence[str], borders: Sequence[Set[int]], *, complete: bool) -> list[Tokenized]:
        """Return texts as tokens.

        Args:
            texts: Texts in valid Unicode.
            borders: Characters of each text that ``first_from`` will be called with.
            complete: Whether texts are complete; else the tokenizer adds its own first and last tokens.
        """
        found = [self._added.find(*pair) for pair in zip(texts, borders, strict=True)]
        made: dict[int, Tokenized] = {}
        quick = [n for n, each in enumerate(found) if each is not None]
        for n, encoding in self._encoded(self._backend.encode_batch_fast, texts, quick, complete):
            ids = np.array(encoding.ids, dtype=np.int64)
            known = self._added.match(texts[n], found[n] or [], ids, complete=complete)
            if known is not None:
                made[n] = Tokenized(ids, known.__getitem__)
        others = [n for n in range(len(texts)) if n not in made]
        for n, encoding in self._encoded(self._backend.encode_batch, texts, others, complete):
            made[n] = Tokenized(np.array(encoding.ids, dtype=np.int64), _Offsets(encoding, len(texts[n])).first_from)
        return [made[n] for n in range(len(texts))]

    def _encoded(
        self, encode: "Callable[..., list[Encoding]]", texts: Sequence[str], some: Sequence[int], complete: bool
    ) -> "Sequence[tuple[int, Encoding]]":
        if not some:
            return ()
        return list(zip(some, encode([texts[n] for n in some], add_special_tokens=not complete), strict=True))


class _AddedTokens:
    """The added tokens of a tokenizer, matched as it does: leftmost first, then longest."""

    def __init__(self, backend: "Tokenizer") -> None:
        added = backend.get_added_tokens_decoder()
        self._ids = {token.content: number for number, token in added.items()}
        self._is_added = np.zeros(max(added, default=0) + 2, dtype=bool)
        self._is_added[list(added)] = True
        # What the tokenizer adds before and after a text.
        mask = backend.encode("a", add_special_tokens=True).special_tokens_mask
        self._before = mask.index(0) if 0 in mask else 0
        self._after = mask[::-1].index(0) if 0 in mask else 0
        # Some added tokens take in the spaces beside them, or are looked for in a text that was changed before.
        is_plain = (0 in mask or not mask) and not any(
            token.lstrip or token.rstrip or token.single_word or (token.normalized and backend.normalizer is not None)
            for token in added.values()
        )
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if is_plain and added else None

    def find(self, text: str, borders: Set[int]) -> list[re.Match[str]] | None:
        """Return the added tokens in a text; None if a border is neither at one of them nor at an end."""
        if self._pattern is None:
            return None
        found = list(self._pattern.finditer(text))
        known = {0, len(text)}
        for each in found:
            known.update(each.span())
        return found if borders <= known else None

    def match(self, text: str, found: list[re.Match[str]], ids: Ints, *, complete: bool) -> dict[int, int] | None:
        """Return the first token from each border on; None if the ids do not match the added tokens found."""
        before = 0 if complete else self._before
        after = 0 if complete else self._after
        inner = ids[before : len(ids) - after]
        [places] = np.nonzero(self._is_added[np.minimum(inner, len(self._is_added) - 1)])
        if inner[places].tolist() != [self._ids[each[0]] for each in found]:
            return None
        known = {0: before}
        for place, each in zip((places + before).tolist(), found, strict=True):
            known[each.start()] = place
            known[each.end()] = place + 1
        known[len(text)] = len(ids)
        return known


class _Offsets:
    """Finds tokens by their characters. Only single ones are looked up: all offsets as a list would cost 25 µs."""

    def __init__(self, encoding: "Encoding", characters: int) -> None:
        self._encoding = encoding
        self._characters = characters

    def first_from(self, character: int) -> int:
        if character >= self._characters:
            return len(self._encoding)
        token: int | None = self._encoding.char_to_token(character)
        if token is None:
            return self._first_by_offsets(character)
        while token < len(self._encoding) and self._begin(token) < character:
            token += 1
        return token

    def _begin(self, token: int) -> int:
        characters: tuple[int, int] | None = self._encoding.token_to_chars(token)
        return self._characters if characters is None else characters[0]

    def _first_by_offsets(self, character: int) -> int:
        """As ``first_from``, for a character that is in no token, such as a space that the tokenizer dropped."""
        offsets = np.array(self._encoding.offsets, dtype=np.int64).reshape(-1, 2)
        found = np.flatnonzero((offsets[:, 0] >= character) & (offsets[:, 1] > offsets[:, 0]))
        return int(found[0]) if len(found) else len(self._encoding)
