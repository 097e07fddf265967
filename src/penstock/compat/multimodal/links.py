"""Paths and URLs that a format function took from a record: strings that know how they may be opened."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.media.content import no_links
from penstock.store.blob import Store
from penstock.store.local import LocalStore
from penstock.text.mediakinds import MEDIA_KINDS

_MEDIA_KEYS = tuple(kind.document_key for kind in MEDIA_KINDS)


class Link(str):
    """A path or a URL of a record. A path of a local source is absolute, whatever the working directory."""

    __slots__ = ("_open",)
    _open: Callable[[str], bytes]

    @classmethod
    def to(cls, path: str, open_link: Callable[[str], bytes]) -> "Link":
        """Return a link that is opened by a function."""
        link = cls(path)
        link._open = open_link
        return link

    def __reduce__(self) -> tuple[Any, ...]:  # to the training loop it is a string
        return str, (str(self),)

    def read(self) -> bytes:
        """Return the bytes of what it names.

        Raises:
            BadMedia: If it is not allowed, or there is nothing of use.
        """
        return self._open(self)


def open_link(link: str) -> bytes:
    """Open a link; see ``media.content.OpenLink``. Other strings are refused."""
    return link.read() if isinstance(link, Link) else no_links(link)


def linked(sample: dict[str, Any], store: Store, folder: str, open_path: Callable[..., bytes]) -> dict[str, Any]:
    """Return a sample in which the paths and URLs of media are links.

    Args:
        sample: What a format function returned.
        store: Store of the source.
        folder: Folder in the store that paths are relative to.
        open_path: Function that opens links, ``open_path(link, folder=…)``.
    """

    def link(path: str) -> Link:
        return Link.to(_absolute(path, store, folder), lambda name: open_path(name, folder=folder))

    found = {key: _each(sample[key], link) for key in _MEDIA_KEYS if sample.get(key) is not None}
    return {**sample, **found}


def _each(value: Any, link: Callable[[str], Link]) -> Any:
    if isinstance(value, str):
        return value if value[:5].lower() == "data:" else link(value)
    if isinstance(value, os.PathLike):
        return link(os.fspath(value))
    if isinstance(value, dict) and isinstance(value.get("path"), str):
        return {**value, "path": link(value["path"])}
    if isinstance(value, list | tuple) and value and isinstance(value[0], str | os.PathLike | dict):
        return [_each(each, link) for each in value]
    return value


def _absolute(path: str, store: Store, folder: str) -> str:
    """Return a local path that does not depend on the working directory; one that exists only there is kept."""
    if not isinstance(store, LocalStore) or "://" in path or os.path.isabs(path) or "\0" in path:
        return path
    beside = Path(store.root, folder, path).absolute()
    return str(beside if beside.exists() or not os.path.exists(path) else Path(path).absolute())
