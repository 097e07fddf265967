"""What a format is, as a digest: an index that was made with another one is made again."""

import hashlib
import inspect
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from penstock.text.formats.format import Format

_PACKAGE = __name__.rpartition(".")[0]


def identity(used: Format) -> str:
    """Return a digest of what decides which records a format accepts and what it makes of them.

    Of a function that is its source text, or its code and constants where there is no text of its own, as in an
    interactive session; with the values that it closes over and its defaults. The built-in formats are known by the
    text of their package. What a function calls or reads from its module is not seen.
    """
    function = used.function
    if str(getattr(function, "__module__", "")).startswith(f"{_PACKAGE}."):
        return _digest(used.dtype, _package_text())
    return _digest(used.dtype, *_described(function))


def _described(function: Any) -> Iterator[str]:
    if isinstance(function, partial):
        yield repr((function.args, sorted(function.keywords.items())))
        yield from _described(function.func)
    elif isinstance(function, FunctionType):
        yield _text(function) or "".join(_compiled(function.__code__))
        yield repr((function.__defaults__, function.__kwdefaults__))
        yield repr([cell.cell_contents for cell in function.__closure__ or ()])
    else:
        yield _text(type(function)) or repr(type(function))
        yield repr(getattr(function, "__dict__", function))


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


@cache
def _package_text() -> str:
    return "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py")))


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:16]
