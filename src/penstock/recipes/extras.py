"""Packages that a recipe or a command needs and a plain installation lacks. Planning needs none of them."""

from functools import cache
from importlib.util import find_spec

from penstock.config import ConfigError


@cache
def require_packages(what: str, extra: str, *packages: str) -> None:
    """Check that packages are installed.

    Args:
        what: Name of what needs the packages, for the message.
        extra: Extra of Penstock that installs them.

    Raises:
        ConfigError: If one is missing. The message has the command that installs it.
    """
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(f"{what} needs {package}: pip install 'penstock[{extra}]'")
