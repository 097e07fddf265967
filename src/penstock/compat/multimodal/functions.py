"""Format functions of a user: what is known of them before the first record, and which records they accept."""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from penstock.config import ConfigError, nearest
from penstock.media.errors import BadMedia
from penstock.media.image.file import open_image
from penstock.readers.records.judging import Verdict
from penstock.text.errors import Rejected
from penstock.text.formats import Format, modality_of, require_tokens
from penstock.text.formats.document import DOCUMENT
from penstock.text.formats.format import shown_error
from penstock.text.formats.identity import identity

FormatFunctions = Mapping[str, Callable[[Any, Any], Any]]

_IMAGE_KEYS = {"bytes", "path"}
_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*")


def make_formats(dtypes: Iterable[str], functions: FormatFunctions, tokens: Mapping[str, str]) -> dict[str, Format]:
    """Return the format of each dtype.

    Raises:
        ConfigError: If a dtype has no function, or ``tokens`` lacks a key that one of our own functions uses.
    """
    wanted = list(dict.fromkeys(dtypes))
    missing = [dtype for dtype in wanted if not callable(functions.get(dtype))]
    if missing:
        raise ConfigError("\n".join(_no_function(dtype, functions) for dtype in missing))
    formats = {dtype: _format(dtype, functions[dtype]) for dtype in wanted}
    require_tokens(formats.values(), tokens)
    return formats


def _no_function(dtype: str, functions: FormatFunctions) -> str:
    others = [name for name in functions if name != dtype]
    near = nearest(dtype, others) or f"; there are {', '.join(others) or 'none'}"
    return f"format_functions: no function for dtype {dtype!r}, which dataset_configs names{near}"


def _format(dtype: str, function: Callable[[Any, Any], Any]) -> Format:
    ours = _our_format(function)
    return Format(dtype, modality_of(dtype), function) if ours is None else replace(ours, dtype=dtype)


def _our_format(function: Callable[[Any, Any], Any]) -> Format | None:
    """Return the format of one of our own functions."""
    return next((each for each in DOCUMENT.values() if each.function is function), None)


def require_picklable(functions: FormatFunctions) -> None:
    """Check that functions can be sent to a process that is started anew.

    Raises:
        TypeError: If one of them can't; the message says what to do.
    """
    for dtype, function in functions.items():
        try:
            pickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"format_functions[{dtype!r}] can't be sent to a worker process that is spawned: {error}; define it in "
                "a module, or let the DataLoader fork: multiprocessing_context='fork'"
            ) from None


def formatted(format: Format, record: dict[str, Any], tokens: Mapping[str, str]) -> dict[str, Any]:
    """Return what the function of a format makes of a record, unchanged.

    Functions of a user get images that are stored in tables as PIL images; our own do not look at images.

    Raises:
        Rejected: If the function returns None or raises an exception, which is then the cause.
        TypeError: If it returns something else than a dict.
    """
    given = _with_images(record) if _our_format(format.function) is None else record
    try:
        made = format.function(given, tokens)
    except Rejected:
        raise
    except Exception as error:
        raise Rejected(f"the format function raised {shown_error(error, record)}") from error
    if made is None:
        raise Rejected("the format function returned None")
    if not isinstance(made, Mapping):
        raise TypeError(
            f"the format function of dtype {format.dtype!r} must return a dict or None; it returned a "
            f"{type(made).__name__}"
        )
    return dict(made)


def _with_images(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose stored images are PIL images. All other values stay as they are."""
    return {key: _with_image(value) for key, value in record.items()}


def _with_image(value: Any) -> Any:
    if isinstance(value, list) and value and _is_image(value[0]):
        return [_with_image(each) for each in value]
    if not _is_image(value):
        return value
    try:
        return open_image(value["bytes"])
    except BadMedia:
        return value


def _is_image(value: Any) -> bool:
    if not (isinstance(value, dict) and value.keys() == _IMAGE_KEYS and isinstance(value["bytes"], bytes)):
        return False
    data = value["bytes"]
    return data.startswith(_IMAGE_SIGNATURES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


class FunctionJudge:
    """Accepts the records that a format function accepts; see ``readers.records.judging.Judge``.

    Args:
        format: Format with the function.
        tokens: Special tokens for the function.
        needs_image: Whether to leave out samples without an image.
        reads_all: Whether records may be damaged, so that each has to be read.
    """

    def __init__(self, format: Format, tokens: Mapping[str, str], *, needs_image: bool, reads_all: bool) -> None:
        self._format = format
        self._tokens = tokens
        self._needs_image = needs_image
        self.leave_out: Sequence[str] = format.media
        self.counts = False
        self.keeps = False
        self.accepts_all = format.accepts_all and not (needs_image or reads_all)

    @cached_property
    def key(self) -> str:
        """Digest of what the verdicts depend on."""
        about = [identity(self._format), self._tokens, self._needs_image, self.accepts_all]
        return hashlib.sha256(json.dumps(about, sort_keys=True, default=repr).encode()).hexdigest()[:16]

    def judge(self, records: Sequence[dict[str, Any]], path: str) -> list[Verdict]:  # noqa: ARG002
        return [Verdict(self._reason(record)) for record in records]

    def _reason(self, record: dict[str, Any]) -> str:
        try:
            made = formatted(self._format, record, self._tokens)
        except Rejected as error:
            return str(error)
        return "no image" if self._needs_image and made.get("image") is None else ""
