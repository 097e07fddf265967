"""Formats by dtype, and how to add one. What is checked here is checked before the first record is read."""

from collections.abc import Callable, Iterable, Mapping

from penstock.config.errors import ConfigError, nearest
from penstock.text.formats.builtin import BUILTIN
from penstock.text.formats.format import Format, FormatFunction, Modality, modality_of

_FORMATS = {each.dtype: each for each in BUILTIN}


def register(
    dtype: str,
    *,
    modality: Modality | None = None,
    tokens: Iterable[str] = (),
    media: Iterable[str] = (),
    system: str = "",
) -> Callable[[FormatFunction], FormatFunction]:
    """Add a format to this process, as a decorator of its function. A format of the same dtype is replaced.

    A run finds its formats when it is opened. Worker processes import the function by its module and name, so one that
    is defined in a notebook or script works in the process itself and in threads only.

    Args:
        dtype: Name in configs.
        modality: Modality that the samples count towards, for caps per modality. Default: ``modality_of(dtype)``.
        tokens: Keys of the ``tokens`` dict that samples need if they are rendered with one.
        media: Columns that may hold media. An index may leave out their bytes.
        system: System prompt for conversations without one, unless the source has its own.
    """

    def add(function: FormatFunction) -> FormatFunction:
        columns = tuple(name.lower() for name in media)
        kind = modality or modality_of(dtype)
        _FORMATS[dtype] = Format(dtype, kind, function, tuple(tokens), columns, system=system)
        return function

    return add


def find(dtype: str) -> Format:
    """Return the format of a dtype.

    Raises:
        ConfigError: If there is none. The message names the nearest dtype.
    """
    try:
        return _FORMATS[dtype]
    except KeyError:
        near = nearest(dtype, _FORMATS) or f"; there are {', '.join(sorted(_FORMATS))}."
        raise ConfigError(
            f"dtype {dtype!r} has no format{near} Or add one with @penstock.text.formats.register({dtype!r}) and name "
            "its module in chat.formats"
        ) from None


def dtypes() -> list[str]:
    """Return all dtypes that have a format, sorted."""
    return sorted(_FORMATS)


def require_tokens(formats: Iterable[Format], tokens: Mapping[str, str]) -> None:
    """Check that a ``tokens`` dict has all keys that formats use.

    Raises:
        ConfigError: If keys are missing; one line per dtype.
    """
    lines = []
    for each in dict.fromkeys(formats):
        missing = [key for key in each.tokens if key not in tokens]
        if missing:
            lines.append(f"tokens: {', '.join(missing)} missing; dtype {each.dtype!r} needs them")
    if lines:
        raise ConfigError("\n".join(lines))
