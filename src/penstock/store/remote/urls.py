"""URLs of stores, parsed. Knows how URLs are written; not how a store is accessed."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from penstock.store.remote.options import is_web_address

EXPECTED_URLS = (
    "s3://bucket/…, r2://account/bucket/…, gs://bucket/…, az://container/…, https://host/…, hf://datasets/org/name/…"
)
HUB_REF = re.compile(r"refs/(?:convert|pr)/[^/]+")
# A revision ends at the next slash, except for the hub's own refs, which contain two.
HUB_DATASET = re.compile(rf"hf://datasets/([^/@]+/[^/@]+)(?:@({HUB_REF.pattern}|[^/]+))?(?:/(.*))?")
HUB_BUCKET = re.compile(r"hf://buckets/([^/@]+/[^/@]+)(?:/(.*))?")
# A query anywhere, or an @ before the name of the dataset, after which only the revision may have one.
HUB_SECRET = re.compile(r".*[?#]|hf://(?:[^/]*/)?[^/]*@", re.DOTALL)


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
        SecretInUrl: If it contains a user name, password or query.
        ValueError: If the scheme is unknown, or there is no bucket.
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
        raise ValueError(f"{url!r} is not a store: expected {EXPECTED_URLS}, file:///folder or a path")
    if not location.bucket or (location.scheme == "r2" and not location.account):
        raise ValueError(f"{url!r} names no bucket: expected {EXPECTED_URLS}")
    if not is_web_address(f"https://{location.account}{location.bucket}"):
        raise ValueError(f"{url!r}: {location.bucket!r} is not a valid bucket or host name")
    return location


@dataclass(frozen=True, slots=True)
class HubLocation:
    """A folder of a dataset or bucket. ``revision`` is a branch, tag, ref or commit; empty for a bucket."""

    repo: str
    revision: str
    prefix: str

    @property
    def url(self) -> str:
        """The normalised URL, without a trailing slash."""
        kind = "datasets" if self.revision else "buckets"
        revision = self.revision if HUB_REF.fullmatch(self.revision) else quote(self.revision, safe="")
        return f"hf://{kind}/{self.repo}{f'@{revision}' if revision else ''}{f'/{self.prefix}' if self.prefix else ''}"


def parse_hub_url(url: str) -> HubLocation:
    """Parse the URL of a dataset or bucket on the Hugging Face Hub.

    Raises:
        SecretInUrl: If it contains a user name, password or query.
        ValueError: If it names neither a dataset nor a bucket.
    """
    if HUB_SECRET.match(url):
        raise SecretInUrl("hf")
    if url.startswith("hf://buckets/"):
        found = HUB_BUCKET.fullmatch(url)
        if not found:
            raise ValueError(f"{url!r}: expected hf://buckets/ORG/NAME/FOLDER, with the folder optional")
        return HubLocation(found[1], "", (found[2] or "").strip("/"))
    found = HUB_DATASET.fullmatch(url)
    if not found:
        raise ValueError(f"{url!r}: expected hf://datasets/ORG/NAME@REVISION/FOLDER, with revision and folder optional")
    return HubLocation(found[1], unquote(found[2] or "main"), (found[3] or "").strip("/"))
