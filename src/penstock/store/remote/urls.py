"""From a URL to the store behind it. Knows how URLs are written; not how a store is talked to."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from penstock.store.remote.options import StoreOptions

if TYPE_CHECKING:
    from penstock.store.remote.remote import Remote

KNOWN = (
    "s3://bucket/…, r2://account/bucket/…, gs://bucket/…, az://container/…, https://host/…, hf://datasets/org/name/…"
)


class SecretInUrl(ValueError):
    """Does not show the URL itself, which may hold a password or a signature."""

    def __init__(self, scheme: str) -> None:
        super().__init__(
            f"a {scheme}:// URL must hold no user name, password or query, as it is logged and stored: "
            "give secrets in the environment"
        )


@dataclass(frozen=True, slots=True)
class Location:
    """A URL taken apart. ``bucket`` is the host for http(s); ``account`` is set for r2 alone."""

    scheme: str
    bucket: str
    prefix: str
    account: str = ""

    @property
    def url(self) -> str:
        """The URL again, in one spelling, without a slash at its end."""
        prefix = quote(self.prefix) if self.scheme in ("http", "https") else self.prefix
        return "/".join(part for part in (f"{self.scheme}:/", self.account, self.bucket, prefix) if part)


def local_path(url: str) -> Path | None:
    """The folder that a ``file://`` URL or a plain path names; None for what is remote."""
    if url.startswith("file://"):
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"{url}: a file URL has three slashes: file:///folder")
        return Path(unquote(parts.path))
    return None if "://" in url else Path(url)


def parse_url(url: str) -> Location:
    """The parts of a remote URL, or an error that says what was expected."""
    scheme, _, rest = url.partition("://")
    # Only web addresses have escapes and queries; in a bucket's key every letter is itself.
    host, _, path = rest.partition("/")
    web = scheme in ("http", "https")
    if "@" in host or (web and ("?" in rest or "#" in rest)):
        raise SecretInUrl(scheme)
    path = (unquote(path) if web else path).strip("/")
    if scheme == "r2":
        bucket, _, prefix = path.partition("/")
        location = Location("r2", bucket, prefix, account=host)
    elif web or scheme in ("s3", "gs", "az"):
        location = Location(scheme, host, path)
    else:
        raise ValueError(f"{url!r} is no store: expected {KNOWN}, file:///folder or a path")
    if not location.bucket or (location.scheme == "r2" and not location.account):
        raise ValueError(f"{url!r} names no bucket: expected {KNOWN}")
    return location


def open_remote(url: str, options: StoreOptions | None = None) -> "Remote":
    """The store of that URL. Nothing is asked of it yet: the first request tells whether it can be reached."""
    options = options or StoreOptions()
    folder = local_path(url)
    if folder is not None:
        from penstock.store.remote.folder import FolderRemote

        return FolderRemote(folder)
    if url.startswith("hf://"):
        from penstock.store.remote.hub import HubRemote

        return HubRemote(url, options)
    from penstock.store.remote.objects import ObjectRemote

    return ObjectRemote(parse_url(url), options)
