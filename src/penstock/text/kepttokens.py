"""Tokens, labels and text of an item as bytes, which an index keeps so that a run need not make them again.

header | token ids, uint16 or int32 | which are trained, a bit each | weights, float32, unless all are 1 | text | rest

The rest is JSON: where media stand, and what else is in the sample. Knows no file.
"""

import json
import struct
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from penstock.text.formats import Sample
from penstock.text.formats.sample import FLAGS
from penstock.text.labels import NO_LABEL, Encoded
from penstock.text.mediakinds import MEDIA_KINDS
from penstock.text.rendered import Medium

_HEADER = struct.Struct("<IIIB")  # tokens, bytes of the text, bytes of the rest, flags
_WEIGHTED = 1  # flag: there are weights
_SHORT = 2  # flag: ids have two bytes, as all are below 65,536
_KEPT = ("dtype", "gen_prompts", *FLAGS)


class KeptTokens(NamedTuple):
    """An item as it was kept.

    Attributes:
        encoded: Tokens and labels.
        text: Text that was tokenized.
        sample: Sample without messages and media.
        has_media: Whether the sample has media. They are not kept: the record must be loaded for them.
    """

    encoded: Encoded
    text: str
    sample: Sample
    has_media: bool


def kept_bytes(sample: Sample, text: str, encoded: Encoded) -> bytes:
    """Return an item as bytes."""
    weights = encoded.loss_weights
    rest = {
        "sample": {key: value for key, value in sample.items() if key in _KEPT},
        "media": [list(medium) for medium in encoded.media],
        "cut": [list(medium) for medium in encoded.cut_media],
        "has_media": any(sample.get(kind.sample_key) is not None for kind in MEDIA_KINDS),
    }
    short = not len(encoded) or int(encoded.input_ids.max()) <= np.iinfo(np.uint16).max
    flags = (_WEIGHTED if weights is not None else 0) | (_SHORT if short else 0)
    written = text.encode()
    described = json.dumps(rest).encode()
    return b"".join(
        (
            _HEADER.pack(len(encoded), len(written), len(described), flags),
            encoded.input_ids.astype(np.uint16 if short else np.int32).tobytes(),
            np.packbits(encoded.labels != NO_LABEL).tobytes(),
            b"" if weights is None else weights.astype(np.float32).tobytes(),
            written,
            described,
        )
    )


def kept_tokens(data: bytes) -> KeptTokens:
    """Return the item from the bytes that ``kept_bytes`` returned."""
    count, text_size, rest_size, flags = _HEADER.unpack_from(data)
    at = _HEADER.size
    stored = np.frombuffer(data, np.uint16 if flags & _SHORT else np.int32, count, at)
    ids = stored.astype(np.int64)
    at += stored.nbytes
    bits = np.frombuffer(data, np.uint8, -(-count // 8), at)
    at += len(bits)
    trained = np.unpackbits(bits, count=count).view(bool)
    weights = np.frombuffer(data, np.float32, count, at) if flags & _WEIGHTED else None
    at += 0 if weights is None else weights.nbytes
    text = data[at : at + text_size].decode()
    at += text_size
    rest = _rest(data[at : at + rest_size])
    encoded = Encoded(ids, np.where(trained, ids, NO_LABEL), weights, rest.media, rest.cut_media)
    return KeptTokens(encoded, text, rest.sample, rest.has_media)


class _Rest(NamedTuple):
    """The part of a kept item beside its tokens and its text."""

    sample: Sample
    media: tuple[Medium, ...]
    cut_media: tuple[Medium, ...]
    has_media: bool


@lru_cache(maxsize=1_024)
def _rest(data: bytes) -> _Rest:
    """Return the rest of an item. Most text items share it: parsing it each time took a third of the time."""
    rest: dict[str, Any] = json.loads(data.decode())
    media = tuple(Medium(*each) for each in rest["media"])
    cut_media = tuple(Medium(*each) for each in rest["cut"])
    return _Rest(cast(Sample, rest["sample"]), media, cut_media, rest["has_media"])
