"""Texts with a remembered key: commands that only need a plan do not load the tokenizer, which takes seconds."""

import hashlib
import json
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.text.texts import Texts

_KIND = "key of texts 2"
_ENDINGS = (".json", ".txt", ".model", ".jinja", ".tiktoken")  # of files that a tokenizer is loaded from
_FOLDERS = (".", "additional_chat_templates")
_MAX_FILE_BYTES = 64 << 20  # in a folder with a larger file there is more than a tokenizer
_PACKAGES = ("transformers", "tokenizers")


class RememberedTexts(Texts):
    """Texts that keep their key in a metadata cache, by the files of the tokenizer's folder; see ``Texts``.

    For a tokenizer that is an object or a name on the hub, the key is computed anew.
    """

    _metadata: Path | None = None

    def remember(self, metadata: Path) -> None:
        """Keep the key in a folder, and read it from there.

        Args:
            metadata: Folder of the indexes.
        """
        self._metadata = metadata

    @cached_property
    def key(self) -> str:
        about = self._about()
        if self._metadata is None or about is None:
            return super().key
        cache = MetadataCache(self._metadata, _KIND)
        kept = cache.get(about)
        if kept is not None:
            return bytes(kept).decode()
        found = super().key
        with suppress(OSError):  # on a full disk the tokenizer is loaded next time, too
            cache.put(about, found.encode())
        return found

    def _about(self) -> ObjectVersion | None:
        """Return what the key depends on; None if the tokenizer has to be loaded."""
        if not isinstance(self._given, str) or not Path(self._given).is_dir():
            return None
        content = _content(Path(self._given))
        if content is None:
            return None
        options: list[object] = [self.tokens, self.max_length, self._train_on, self.too_long]
        packages = [version(name) for name in _PACKAGES]
        return ObjectVersion("tokenizer", content, json.dumps([options, packages], sort_keys=True))


def _content(folder: Path) -> str | None:
    """Return a digest of the files of a tokenizer; None if one exceeds 64 MiB."""
    digest = hashlib.sha256()
    found = [path for name in _FOLDERS for path in (folder / name).glob("*") if path.suffix in _ENDINGS]
    for path in sorted(path for path in found if path.is_file()):
        if path.stat().st_size > _MAX_FILE_BYTES:
            return None
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()
