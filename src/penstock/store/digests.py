"""Hashes of files, for versions (ETags) that are a hash of the content. Knows nothing of stores."""

import hashlib
import re
from pathlib import Path

HASHES = {32: "md5", 40: "git", 64: "sha256"}


def hash_in(etag: str) -> str:
    """Return the hash that an ETag looks like: ``md5`` (S3), ``git``, ``sha256``; empty for others (multipart)."""
    return HASHES.get(len(etag), "") if re.fullmatch(r"[0-9a-f]+", etag) else ""


def digest(path: Path, kind: str) -> str:
    """Return a file's hash in hex. ``kind`` is a value of ``HASHES``."""
    with path.open("rb") as file:
        if kind != "git":
            return hashlib.file_digest(file, kind).hexdigest()
        blob = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        while piece := file.read(1 << 20):
            blob.update(piece)
        return blob.hexdigest()
