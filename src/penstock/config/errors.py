"""The error of a config, and the nearest valid name for its message."""

from collections.abc import Iterable
from difflib import get_close_matches
from reprlib import Repr

_SHORT = Repr()
_SHORT.maxstring = 200
_SHORT.maxother = 200
_SHORT.maxlevel = 3


class ConfigError(ValueError):
    """A configuration that cannot be used. The message has one line per problem, each naming the key.

    Examples:
        >>> import penstock
        >>> try:
        ...     feed = penstock.open("run.yaml", batch_sise=8)
        ... except penstock.ConfigError as error:
        ...     print(error)
        run.yaml: batch_sise: unknown key; did you mean batch_size?
    """


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``; did you mean …?`` with the most similar valid name, or an empty text if none is similar."""
    close = get_close_matches(name[:100], list(valid), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def shown(value: object) -> str:
    """Return a value for a message: its ``repr``, shortened."""
    return _SHORT.repr(value)
