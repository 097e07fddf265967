"""A folder of files with a description, ``manifest.json``, and checksums of everything. Knows nothing of the files.

FOLDER/manifest.json    facts of the writer, names and sizes of the files, digest of checksums.bin, digest of itself
FOLDER/checksums.bin    CRC-32 of every block of every file, in the order of manifest.json
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from penstock.manifest.checked import BLOCK_BYTES, CheckedFile, block_checksums
from penstock.manifest.errors import ManifestError

DESCRIPTION = "manifest.json"
CHECKSUMS = "checksums.bin"


def seal(folder: Path, facts: dict[str, Any]) -> None:
    """Write the description and the checksums of all files in a folder.

    Args:
        folder: Folder with the files.
        facts: Facts to store, with at least ``version``. JSON must be able to represent them.
    """
    files = sorted(folder.iterdir())
    checksums = b"".join(block_checksums(path).tobytes() for path in files)
    (folder / CHECKSUMS).write_bytes(checksums)
    sizes = {path.name: path.stat().st_size for path in files}
    described = {**facts, "files": sizes, "checksums": hashlib.sha256(checksums).hexdigest()}
    sealed = {**described, "digest": _digest(described)}
    (folder / DESCRIPTION).write_text(json.dumps(sealed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class SealedFolder:
    """A folder that ``seal`` has described.

    Args:
        path: Path of the folder.
        version: Version of the format that the caller reads: ``facts["version"]``.

    Attributes:
        path: Path of the folder.
        facts: Facts of the writer.

    Raises:
        ManifestError: If the folder is missing, has another version, or has a damaged description.
    """

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.facts = _described(path, version)
        sizes: dict[str, int] = self.facts["files"]
        checksums = _read(path / CHECKSUMS)
        if hashlib.sha256(checksums).hexdigest() != self.facts["checksums"]:
            raise ManifestError(f"{path / CHECKSUMS}: damaged; make the manifest again")
        blocks = [-(-size // BLOCK_BYTES) for size in sizes.values()]
        pieces = np.split(np.frombuffer(checksums, dtype="<u4"), np.cumsum(blocks)[:-1])
        self._files = dict(zip(sizes, zip(sizes.values(), pieces, strict=True), strict=True))

    def open(self, name: str) -> CheckedFile:
        """Map one of the files."""
        return CheckedFile(self.path / name, *self._files[name])


def _described(path: Path, version: int) -> dict[str, Any]:
    text = _read(path / DESCRIPTION)
    try:
        facts: dict[str, Any] = json.loads(text)
        found = facts.get("version")
    except (ValueError, RecursionError, AttributeError) as error:
        reason = str(error).split(":")[0]
        raise ManifestError(f"{path / DESCRIPTION}: not readable: {reason}; make the manifest again") from None
    if found != version:
        raise ManifestError(f"{path}: manifest version {found!r}, this release reads {version}; make it again")
    if facts.pop("digest", None) != _digest(facts):
        raise ManifestError(f"{path / DESCRIPTION}: damaged: the digest is wrong; make the manifest again")
    return facts


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ManifestError(f"{path.parent}: no compiled manifest here ({path.name} is missing)") from None


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
