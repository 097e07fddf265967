"""Opens paths and URLs in records, within limits. Knows nothing of their content.

A record is not trusted. It may name files of its own folder or source. Files elsewhere and URLs need permission.
"""

import errno
import os
import posixpath
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from penstock.config.errors import ConfigError
from penstock.media.content import short
from penstock.media.errors import BadMedia
from penstock.media.span import read_all
from penstock.store.blob import Blob, Store
from penstock.store.local import LocalBlob, LocalStore
from penstock.store.remote.addresses import is_any, is_public
from penstock.store.remote.failures import without_queries
from penstock.store.remote.remote import ObjectChanged, StoreError, StoreUnavailable
from penstock.store.remote.untrusted import fetch

MAX_BYTES = 256 << 20
CANNOT_OPEN = "names a file that cannot be opened"
OUTSIDE = "names a file outside of its source"
# Errors of a wrong path. Other errors come from the disk and end the run.
NAMING_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP}


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """Opens the files and URLs that records name; use ``partial(links, folder=…)`` as an ``OpenLink``.

    Attributes:
        open_store: Function that opens the store of the source.
        media_root: Local folders in which relative paths are searched, before the folder of the records, and below
            which files may be opened.
        foreign: Whether others wrote the records of a local store. Such records may name files of their store, as those
            of a remote store may. The user's own records may name files below their own folder; naming any other file
            is an error in the config, not a bad sample, so that nothing is left out silently.
        allow_urls: Whether to fetch http:// and https:// URLs.
        allow_private: Whether to fetch URLs also from addresses that are not public: of this machine, of the local
            network, of cloud metadata services.
        max_bytes: Size of the largest file to read.
        seconds: Timeout of a URL.
    """

    open_store: Callable[[], Store]
    media_root: tuple[Path, ...] = ()
    foreign: bool = False
    allow_urls: bool = False
    allow_private: bool = False
    max_bytes: int = MAX_BYTES
    seconds: float = 30.0

    def __call__(self, link: str, folder: str = "") -> bytes:
        """Return the content of a file or URL that a record names.

        Args:
            link: Path relative to the folder, or URL.
            folder: Folder of the records' file in the store.

        Raises:
            BadMedia: If it is not allowed, does not exist, is too large, or the URL does not answer.
            ConfigError: If one of the user's own records names a file that ``media_root`` must allow.
            OSError: If the store fails.
        """
        if "\0" in link:
            raise BadMedia(f"the path {short(link)!r} contains NUL", CANNOT_OPEN)
        scheme = link.partition("://")[0].lower() if "://" in link and not link.startswith("file:///") else ""
        if scheme in ("http", "https"):
            return self._fetched(link)
        if scheme:
            only = "only paths, http:// and https:// URLs are opened"
            raise BadMedia(f"the record names {short(link)!r}; {only}", f"names something else; {only}")
        return self._read(unquote(link[7:]) if link.startswith("file:///") else link, folder)

    def _fetched(self, url: str) -> bytes:
        if not self.allow_urls:
            refused = "URLs are not fetched; allow_urls: true allows it"
            shown = short(without_queries(url))
            raise BadMedia(f"the record names the URL {shown}, and {refused}", f"names a URL, and {refused}")
        try:
            allowed = is_any if self.allow_private else is_public
            return fetch(url, max_bytes=self.max_bytes, seconds=self.seconds, allowed=allowed)
        except StoreError as error:
            raise BadMedia(str(error), "names a URL that cannot be fetched") from None

    def _read(self, path: str, folder: str) -> bytes:
        try:
            blob = self._opened(path, folder)
        except (StoreUnavailable, ObjectChanged):
            raise
        except (OSError, UnicodeError) as error:
            if isinstance(error, UnicodeError | StoreError) or error.errno in NAMING_ERRORS:
                message = f"the record names {short(path)!r}, which cannot be opened: {error}"
                raise BadMedia(message, CANNOT_OPEN) from None
            raise
        try:
            if blob.size > self.max_bytes:
                most = f"up to {self.max_bytes:,} are read"
                raise BadMedia(f"{short(path)} has {blob.size:,} bytes; {most}", f"names too large a file; {most}")
            return read_all(blob)
        finally:
            blob.close()

    def _opened(self, path: str, folder: str) -> Blob:
        store = self.open_store()
        if isinstance(store, LocalStore) and not self.foreign:
            return self._opened_own(path, store.root / folder)
        for root in self.media_root:
            file = _real(root / path)
            if file.is_file() and any(file.is_relative_to(_real_folder(each)) for each in self.media_root):
                return LocalBlob(file)
        name = posixpath.normpath(posixpath.join(folder, path))
        if not isinstance(store, LocalStore):
            if posixpath.isabs(name) or name == ".." or name.startswith("../"):
                raise BadMedia(f"the record names {short(path)!r}, which is outside of {store.url}", OUTSIDE)
            return store.open(name)
        full = Path(os.path.normpath(store.root / name))
        if not full.is_relative_to(store.root):
            where = f"its source's folder {store.root}"
            raise BadMedia(f"the record names {short(path)!r}, which is outside of {where}", OUTSIDE)
        return _opened_file(full, path)

    def _opened_own(self, path: str, folder: Path) -> Blob:
        """Open a file that one of the user's own records names: the first allowed one that exists."""
        bases = (*self.media_root, folder)
        files = [_real(base / path) for base in bases]
        outside = [file for file in files if not any(file.is_relative_to(_real_folder(base)) for base in bases)]
        found = [file for file in files if file not in outside and file.exists()]
        if outside and not found:
            leads = "" if posixpath.isabs(path) else f", which is {str(outside[-1])!r}"
            missing = outside[-1].parent
            advice = f"add {missing} to `media_root`" if self.media_root else f"add `media_root: {missing}`"
            raise ConfigError(
                f"a record in {folder} names {short(path)!r}{leads}: files are opened below that folder and below "
                f"`media_root` of the source only; {advice}, or `/` to allow all files"
            )
        try:
            return _opened_file(found[0] if found else files[-1], path)
        except FileNotFoundError:
            looked = " or ".join(str(base) for base in bases)
            message = f"the record names {short(path)!r}, which cannot be opened: no such file in {looked}"
            raise BadMedia(message, CANNOT_OPEN) from None


def _real(path: Path) -> Path:
    """Resolve symbolic links."""
    return Path(os.path.realpath(path))


_real_folder = lru_cache(1_024)(_real)


def _opened_file(file: Path, path: str) -> Blob:
    if not stat.S_ISREG(file.stat().st_mode):  # opening a pipe would wait for a writer
        raise BadMedia(f"the record names {short(path)!r}, which is not a file", CANNOT_OPEN)
    return LocalBlob(file)
