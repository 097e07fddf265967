"""Where an object lies in a node cache: a readable path, unique per object, that no key can escape from.

    s3://bucket/speech  +  telugu/shard-0.tar  +  "9f8e"      ->   s3/bucket/speech/telugu/shard-0.tar~9f8e.data
    s3://bucket/robot   +  file-0.mp4  +  "77ab", 100 to 900  ->   s3/bucket/robot/file-0.mp4~77ab@100-900.data

``~`` and ``%`` are escaped in URLs, keys and versions, so that no key can imitate what is put behind a ``~`` here (the
version, or the hash of a name that is too long); ``@`` is escaped in versions, for the same reason.
"""

import hashlib
import re
from pathlib import PurePosixPath

from penstock.store.blob import ByteRange

DATA = ".data"
HAVE = ".have"
# The top folders of objects, named by the scheme of the store's URL. Nothing else in a cache is an object.
SCHEMES = ("s3", "r2", "gs", "az", "http", "https", "hf", "file")
# A file name may have 255 bytes: the name, "~", the version with its range, and the suffix.
_NAME_BYTES = 140
_VERSION_BYTES = 104
_PATH_BYTES = 2048
_UNSAFE = re.compile("[%~\x00-\x1f\x7f\ud800-\udfff]")


def object_path(url: str, key: str, version: str, within: ByteRange | None = None) -> PurePosixPath:
    """Return the data file of one version of one object, or of a range of it, relative to the cache.

    Different inputs differ (SHA-256).

    Raises:
        ValueError: If the URL's scheme is not in ``SCHEMES``.
    """
    scheme, _, place = url.rpartition("://")
    scheme = scheme or "file"
    if scheme not in SCHEMES:
        raise ValueError(f"{url}: a cache can't keep objects of {scheme}://, only of {', '.join(SCHEMES)}")
    folders = [scheme, *place.strip("/").split("/"), *key.split("/")]
    names = [_short(_component(name), _NAME_BYTES) for name in folders]
    if len("/".join(names).encode()) > _PATH_BYTES:
        names = [names[0], "~" + _digest("/".join(names)), names[-1]]
    tag = _escape(version.strip('"')).replace("/", "%2F").replace("@", "%40")
    if within is not None:
        tag += f"@{within[0]}-{within[1]}"
    tag = _short(tag, _VERSION_BYTES, "@")  # not "~": the rest would look like a version that is a hash
    return PurePosixPath(*names[:-1], f"{names[-1]}~{tag}{DATA}")


def is_data(name: str) -> bool:
    """Return whether a file name below a scheme's folder is that of an object's data."""
    return name.endswith(DATA) and "~" in name


def have_path(data: str) -> str:
    """Return the file next to a data file that marks which of its parts are there."""
    return data.removesuffix(DATA) + HAVE


def _component(name: str) -> str:
    """One folder or file name: never empty, never ``.`` or ``..``, and unique."""
    if name in ("", ".", ".."):
        return "%" + "%2E" * len(name)
    return _escape(name)


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _short(name: str, limit: int, mark: str = "~") -> str:
    encoded = name.encode()
    if len(encoded) <= limit:
        return name
    return encoded[: limit - 33].decode(errors="ignore") + mark + _digest(name)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]
