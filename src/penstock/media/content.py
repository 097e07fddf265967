"""The value of a record for an image, a video or a sound -> the bytes of a file, or an array. Knows no format.

Records are not trusted. Nothing in them is unpickled or executed, and a path or URL is opened only by the function that
is passed in.
"""

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.span import read_all

_SHOWN_CHARACTERS = 80

OpenLink = Callable[[str], bytes]
"""Returns the bytes of a path or URL that a record names. See :class:`penstock.media.links.Links`."""


def no_links(link: str) -> bytes:
    """Refuse every path and URL, for values that must contain their bytes."""
    refused = "paths and URLs are not opened here"
    raise BadMedia(f"the record names {short(link)!r}, and {refused}", f"names a file, and {refused}")


def content(value: object, open_link: OpenLink = no_links) -> bytes:
    """Return the bytes of a file that a record holds or names.

    Args:
        value: Bytes; a :class:`ByteSpan`; a file object; a ``data:`` URL; a path or another URL; or a dict with
            ``bytes`` or ``path``, as Hugging Face datasets store images, sounds and videos.
        open_link: Function that opens paths and URLs.

    Raises:
        BadMedia: If the value is none of these, or cannot be read.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str | os.PathLike):
        return _linked(os.fspath(value), open_link)
    if isinstance(value, Mapping):
        return _stored(value, open_link)
    if hasattr(value, "readinto") and hasattr(value, "size"):
        return read_all(value)
    if hasattr(value, "read"):
        data = value.read()
        if isinstance(data, bytes):
            return data
        raise BadMedia(f"the file object yields {type(data).__name__} instead of bytes: open it in binary mode")
    raise BadMedia(f"a value of type {type(value).__name__} is not a file")


def as_array(value: object) -> NDArray[Any] | None:
    """Return an array, a tensor or nested lists as an array; None for anything else."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):  # a tensor, without importing torch
        tensor = value.detach().cpu()
        known = tensor.float() if tensor.is_floating_point() else tensor  # numpy has no bfloat16
        array: NDArray[Any] = known.numpy()
        return array
    if isinstance(value, list | tuple):
        try:
            return np.asarray(value)
        except (ValueError, TypeError, OverflowError):
            raise BadMedia("the lists are not numbers in rows of equal length") from None
    return None


def _stored(value: Mapping[str, object], open_link: OpenLink) -> bytes:
    for key in ("bytes", "path"):
        if value.get(key) is not None:
            return content(value[key], open_link)
    raise BadMedia(f"the value has neither 'bytes' nor 'path', only {sorted(map(str, value))}")


def _linked(link: str | bytes, open_link: OpenLink) -> bytes:
    text = os.fsdecode(link)
    if not text:
        raise BadMedia("the path is empty")
    return data_url(text) if text[:5].lower() == "data:" else open_link(text)


def data_url(url: str) -> bytes:
    """Return the bytes in a ``data:`` URL.

    Raises:
        BadMedia: If it is damaged.
    """
    head, comma, tail = url.partition(",")
    if not comma:
        raise BadMedia(f"the data: URL {short(url)!r} has no comma, and so no data", "a data: URL without data")
    data = unquote_to_bytes(tail)
    if not head.lower().endswith(";base64"):
        return data
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error as error:
        message = f"the data: URL {short(url)!r} is not valid base64: {error}"
        raise BadMedia(message, "a data: URL that is not valid base64") from None


def short(text: str) -> str:
    """Shorten text for a message."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
