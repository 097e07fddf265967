"""Modules with formats of the user's own: a run names them, and processes that get one of its formats import them."""

from collections.abc import Iterable
from pathlib import Path

from penstock.config.own import CannotImport, import_own

_imported: dict[str, None] = {}  # in order


def import_formats(names: Iterable[str], folder: Path) -> None:
    """Import modules that register formats, also from the folder of the config.

    Raises:
        CannotImport: one of them cannot be imported; the message names the key and the module.
    """
    for name in names:
        try:
            import_own(name, folder)
        except CannotImport as error:
            raise CannotImport(f"formats: {name!r} cannot be imported: {error}") from None
        _imported[name] = None


def imported_formats() -> tuple[str, ...]:
    """Return the names of all modules that were imported for their formats."""
    return tuple(_imported)
