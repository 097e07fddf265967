"""Exports of a package whose modules are imported only when a name is used. Knows no package of ours."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    A package repeats the imports under ``if TYPE_CHECKING``, for type checkers and the API reference.

    Args:
        package: Name of the package.
        modules: Exported names, by the module that has them.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)  # the next look-up does not come here
        return found

    def listed() -> list[str]:
        """List exports and modules; not what the package itself imports."""
        own = vars(sys.modules[package])
        kept = [name for name, value in own.items() if name.startswith("__") or isinstance(value, ModuleType)]
        return sorted({*kept, *homes, *own.get("__all__", ())})

    return load, listed
