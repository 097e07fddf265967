"""Texts whose key is remembered: what only looks at a plan need not load a tokenizer, which takes seconds."""

import hashlib
import json
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.text.texts import Texts

_KIND = "key of texts 2"
_ENDINGS = (".json", ".txt", ".model", ".jinja", ".tiktoken")  # of files that a tokenizer is loaded from
_FOLDERS = (".", "additional_chat_templates")
_MOST_BYTES = 64 << 20  # of a file of a tokenizer; in a folder with a larger one there are other things as well
_PACKAGES = ("transformers", "tokenizers")


class RememberedTexts(Texts):
    """Texts that keep their key on a shelf, by the files of the tokenizer's folder; see ``Texts``.

    A tokenizer that is a name on the hub, or an object, is loaded to know it.
    """

    _shelf: Path | None = None

    def remember(self, shelf: Path) -> None:
        """Keep the key in a folder, and take it from there.

        Args:
            shelf: the folder in which indexes are kept.
        """
        self._shelf = shelf

    @cached_property
    def key(self) -> str:
        about = self._about()
        if self._shelf is None or about is None:
            return super().key
        shelf = MetadataCache(self._shelf, _KIND)
        kept = shelf.get(about)
        if kept is not None:
            return bytes(kept).decode()
        found = super().key
        with suppress(OSError):  # on a full disk the tokenizer is loaded next time, too
            shelf.put(about, found.encode())
        return found

    def _about(self) -> ObjectVersion | None:
        """Return what the key depends on; None if only the tokenizer itself can tell."""
        if not isinstance(self._given, str) or not Path(self._given).is_dir():
            return None
        content = _content(Path(self._given))
        if content is None:
            return None
        options: list[Any] = [self.tokens, self.max_length, self._train_on, self.too_long]
        packages = [version(name) for name in _PACKAGES]
        return ObjectVersion("tokenizer", content, json.dumps([options, packages], sort_keys=True))


def _content(folder: Path) -> str | None:
    """Return a digest of the files of a tokenizer; None if they are no longer alone with the weights of a model."""
    digest = hashlib.sha256()
    found = [path for name in _FOLDERS for path in (folder / name).glob("*") if path.suffix in _ENDINGS]
    for path in sorted(path for path in found if path.is_file()):
        if path.stat().st_size > _MOST_BYTES:
            return None
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()
