"""Texts -> token ids, and which token begins where. Many texts per call; knows no label.

A fast tokenizer tells the characters of every token, which costs a fourth of its time. Most borders that are asked for
lie at added tokens, such as ``<|user|>``, or after a header that follows one:

    <|im_start|> assistant ⏎ | Hello                   the border is after the tokens of "assistant⏎"

A tokenizer splits a text at added tokens before all else: the n-th added token of a text is the n-th one among its
tokens. If the tokens after it are those of the header alone, which end where the header ends, the border is after them.
The characters of tokens need not be known then.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence, Set
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Ints = npt.NDArray[np.int64]

_HEADER_CHARACTERS = 64
_KEPT_HEADERS = 1_024


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
        encodings = self._encoded(self._backend.encode_batch_fast, texts, quick, complete)
        tokens = _Flat([encoding.ids for encoding in encodings])
        for n, ids, places in zip(quick, tokens.ids, tokens.where(self._added.is_added), strict=True):
            known = self._added.match(found[n], ids, places, len(texts[n]), complete=complete)
            if known is not None:
                made[n] = Tokenized(ids, known.__getitem__)
        others = [n for n in range(len(texts)) if n not in made]
        encodings = self._encoded(self._backend.encode_batch, texts, others, complete)
        for n, encoding in zip(others, encodings, strict=True):
            made[n] = Tokenized(np.array(encoding.ids, dtype=np.int64), _Offsets(encoding, len(texts[n])).first_from)
        return [made[n] for n in range(len(texts))]

    def _encoded(
        self, encode: "Callable[..., list[Encoding]]", texts: Sequence[str], some: Sequence[int], complete: bool
    ) -> "Sequence[Encoding]":
        return encode([texts[n] for n in some], add_special_tokens=not complete) if some else ()


class _Flat:
    """The ids of many texts as one array: a call of numpy per batch instead of one per text."""

    def __init__(self, lists: Sequence[list[int]]) -> None:
        self._ends = np.cumsum([0, *map(len, lists)])
        self._all = np.fromiter(chain.from_iterable(lists), np.int64, int(self._ends[-1]))

    @property
    def ids(self) -> list[Ints]:
        """The ids of each text."""
        return [self._all[start:end] for start, end in pairwise(self._ends.tolist())]

    def where(self, is_one: npt.NDArray[np.bool_]) -> list[list[int]]:
        """Return the places of some ids in each text, given a flag per id; larger ids have the last flag."""
        [places] = np.nonzero(is_one[np.minimum(self._all, len(is_one) - 1)])
        bounds = np.searchsorted(places, self._ends).tolist()
        texts = np.repeat(self._ends[:-1], np.diff(bounds))
        within = (places - texts).tolist()
        return [within[start:end] for start, end in pairwise(bounds)]


class _BorderPlace(NamedTuple):
    """A border of a text.

    Attributes:
        token: Number of the added token that it is at or after.
        header: Ids of the tokens between the end of the added token and the border; None at its start.
    """

    token: int
    header: tuple[int, ...] | None


class _Outline(NamedTuple):
    """The added tokens of a text, and its borders.

    Attributes:
        ids: Ids of the added tokens.
        borders: Borders by character, except the ends of the text.
    """

    ids: list[int]
    borders: dict[int, _BorderPlace]


class _AddedTokens:
    """The added tokens of a tokenizer, matched as it does: leftmost first, then longest."""

    def __init__(self, backend: "Tokenizer") -> None:
        self._backend = backend
        added = backend.get_added_tokens_decoder()
        self._ids = {token.content: number for number, token in added.items()}
        self.is_added = np.zeros(max(added, default=0) + 2, dtype=bool)
        self.is_added[list(added)] = True
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
        self._headers: dict[tuple[str, str], tuple[int, ...] | None] = {}

    def find(self, text: str, borders: Set[int]) -> _Outline | None:
        """Return the added tokens and borders of a text; None if a border is at none of them and after no header."""
        if self._pattern is None:
            return None
        spans = [each.span() for each in self._pattern.finditer(text)]
        found: dict[int, _BorderPlace] = {}
        for border in borders:
            if border in (0, len(text)):
                continue
            after = bisect_right(spans, border, key=_end)  # tokens that end at the border or before it
            if after and spans[after - 1][1] == border:
                found[border] = _BorderPlace(after - 1, ())
            elif after < len(spans) and spans[after][0] == border:
                found[border] = _BorderPlace(after, None)
            else:
                if not after or border - spans[after - 1][1] > _HEADER_CHARACTERS:
                    return None
                start, end = spans[after - 1]
                header = self._header(text[start:end], text[end:border])
                if header is None:
                    return None
                found[border] = _BorderPlace(after - 1, header)
        return _Outline([self._ids[text[start:end]] for start, end in spans], found)

    def _header(self, token: str, text: str) -> tuple[int, ...] | None:
        """Return the tokens of a text that follows an added token; None if they do not end where it ends."""
        key = (token, text)
        if key not in self._headers:
            if len(self._headers) >= _KEPT_HEADERS:
                self._headers.clear()
            encoding = self._backend.encode(token + text, add_special_tokens=False)
            ids = encoding.ids
            is_known = ids[:1] == [self._ids[token]] and encoding.offsets[-1][1] == len(token + text)
            unknown = self._backend.token_to_id(getattr(self._backend.model, "unk_token", None) or "")
            self._headers[key] = tuple(ids[1:]) if is_known and unknown not in ids else None
        return self._headers[key]

    def match(
        self, found: _Outline | None, ids: Ints, places: list[int], characters: int, *, complete: bool
    ) -> dict[int, int] | None:
        """Return the first token from each border on; None if the ids are not those that were expected.

        Args:
            found: Added tokens and borders.
            ids: Tokens of the text.
            places: Places of added tokens among them.
            characters: Length of the text.
            complete: Whether the tokenizer has added nothing.
        """
        assert found is not None
        before = 0 if complete else self._before
        if not complete:
            end = len(ids) - self._after
            places = [place for place in places if before <= place < end]
        if ids[places].tolist() != found.ids:
            return None
        known = {0: before, characters: len(ids)}
        for border, (token, header) in found.borders.items():
            place = places[token]
            if header:
                if ids[place + 1 : place + 1 + len(header)].tolist() != list(header):
                    return None
                place += len(header)
            known[border] = place if header is None else place + 1
        return known


def _end(span: tuple[int, int]) -> int:
    return span[1]


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
