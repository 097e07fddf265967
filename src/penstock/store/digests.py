"""Whether a file's bytes are those its version names, where a version is a hash. Knows nothing of stores."""

import hashlib
import re
from pathlib import Path

HASHES = {32: "md5", 40: "git", 64: "sha256"}


def hash_in(etag: str) -> str:
    """Which hash of the content an ETag looks like: S3's MD5, git's blob, SHA-256; empty for others (multipart)."""
    return HASHES.get(len(etag), "") if re.fullmatch(r"[0-9a-f]+", etag) else ""


def digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        if kind != "git":
            return hashlib.file_digest(file, kind).hexdigest()
        blob = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        while piece := file.read(1 << 20):
            blob.update(piece)
        return blob.hexdigest()
