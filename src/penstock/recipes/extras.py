"""Packages that a recipe needs and a plain installation lacks. Checked when a batch is made, not when it is planned."""

from functools import cache
from importlib.util import find_spec

from penstock.config import ConfigError


@cache
def require_packages(extra: str, *packages: str) -> None:
    """Check that packages are installed.

    Args:
        extra: the extra of Penstock that installs them, named like the recipe.

    Raises:
        ConfigError: one is missing; the message has the command that installs it.
    """
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(f"recipe: {extra} needs {package}: pip install 'penstock[{extra}]'")
