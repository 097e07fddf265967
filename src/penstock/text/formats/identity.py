"""The digest of a format: an index made with another format is made again."""

import hashlib
import inspect
import re
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from penstock.text.formats.builtin import BUILTIN
from penstock.text.formats.document import DOCUMENT
from penstock.text.formats.format import Format

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DEPTH = 4  # of objects in objects that are looked at


def identity(used: Format) -> str:
    """Return a digest of what decides which records a format accepts and what it makes of them.

    A built-in format is known by the name and the version of its function. A function of a user is known by its source
    text, or its code and constants where there is no text of its own, as in an interactive session; with the values
    that it closes over and its defaults. Objects among these are known by their class and their attributes. What a
    function calls or reads from its module is not seen.
    """
    if used.version is not None:
        return _digest(used.dtype, used.function.__qualname__, str(used.version))
    own = next((each for each in (*BUILTIN, *DOCUMENT.values()) if each.function is used.function), None)
    known = _described(used.function) if own is None else (identity(own),)
    return _digest(used.dtype, used.system, repr(used.media), *known)


def _described(function: Any, depth: int = _DEPTH) -> Iterator[str]:
    if isinstance(function, partial):
        yield _value((function.args, sorted(function.keywords.items())), depth)
        yield from _described(function.func, depth)
    elif isinstance(function, MethodType):
        yield _value(function.__self__, depth)
        yield from _described(function.__func__, depth)
    elif isinstance(function, FunctionType):
        yield _text(function) or "".join(_compiled(function.__code__))
        yield _value((function.__defaults__, function.__kwdefaults__), depth)
        yield from (_value(cell.cell_contents, depth) for cell in function.__closure__ or ())
    else:
        yield _text(type(function)) or repr(type(function))
        yield _value(getattr(function, "__dict__", function), depth)


def _value(value: Any, depth: int) -> str:
    """Return a text for a value that is the same in every process, without addresses."""
    written = repr(value)
    if not _ADDRESS.search(written):
        return written
    if depth:
        if isinstance(value, dict):
            return repr([(str(key), _value(each, depth - 1)) for key, each in value.items()])
        if isinstance(value, list | tuple):
            return repr([_value(each, depth - 1) for each in value])
        if callable(value) or hasattr(value, "__dict__"):
            return "".join(_described(value, depth - 1))
    return _ADDRESS.sub("", written)


def _text(written: Any) -> str:
    if written.__name__ == "<lambda>":  # its source text is a whole line, which may hold several
        return ""
    try:
        return inspect.getsource(written)
    except (OSError, TypeError):
        return ""


def _compiled(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _compiled(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:16]
