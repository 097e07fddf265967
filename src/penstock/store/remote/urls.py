"""From a URL to its store. Knows how URLs are written; not how a store is accessed."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from penstock.store.remote.options import StoreOptions, is_web_address

if TYPE_CHECKING:
    from penstock.store.remote.remote import Remote

KNOWN = (
    "s3://bucket/…, r2://account/bucket/…, gs://bucket/…, az://container/…, https://host/…, hf://datasets/org/name/…"
)


class SecretInUrl(ValueError):
    """A URL with a password or signature. The message does not show the URL."""

    def __init__(self, scheme: str) -> None:
        super().__init__(
            f"a {scheme}:// URL must not contain a user name, password or query, as it is logged and stored: "
            "put secrets into the environment"
        )


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed URL. ``bucket`` is the host for http(s); ``account`` is only set for r2."""

    scheme: str
    bucket: str
    prefix: str
    account: str = ""

    @property
    def url(self) -> str:
        """The normalised URL, without a trailing slash."""
        prefix = quote(self.prefix) if self.scheme in ("http", "https") else self.prefix
        return "/".join(part for part in (f"{self.scheme}:/", self.account, self.bucket, prefix) if part)


def local_path(url: str) -> Path | None:
    """Return the path of a ``file://`` URL or a plain path; None for a remote URL."""
    if url.startswith("file://"):
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"{url}: a file URL has three slashes: file:///folder")
        return Path(unquote(parts.path))
    return None if "://" in url else Path(url)


def parse_url(url: str) -> Location:
    """Parse a remote URL.

    Raises:
        SecretInUrl: it contains a user name, password or query.
        ValueError: unknown scheme, or no bucket.
    """
    scheme, _, rest = url.partition("://")
    # Only web addresses have escapes and queries; in a bucket's key every character is literal.
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
        raise ValueError(f"{url!r} is not a store: expected {KNOWN}, file:///folder or a path")
    if not location.bucket or (location.scheme == "r2" and not location.account):
        raise ValueError(f"{url!r} names no bucket: expected {KNOWN}")
    if not is_web_address(f"https://{location.account}{location.bucket}"):
        raise ValueError(f"{url!r}: {location.bucket!r} is no name of a bucket or host")
    return location


def open_remote(url: str, options: StoreOptions | None = None) -> "Remote":
    """Return the store of a URL. No request is sent yet: the first one shows whether the store can be reached."""
    options = options or StoreOptions()
    folder = local_path(url)
    if folder is not None:
        from penstock.store.remote.folder import FolderRemote

        return FolderRemote(folder)
    if url.startswith("hf://buckets/"):
        from penstock.store.remote.hubbucket import BucketRemote

        return BucketRemote(url, options)
    if url.startswith("hf://"):
        from penstock.store.remote.hub import HubRemote

        return HubRemote(url, options)
    from penstock.store.remote.objects import ObjectRemote

    return ObjectRemote(parse_url(url), options)
