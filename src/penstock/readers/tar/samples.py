"""The samples of a tar shard, by the naming rules of WebDataset. Knows names and places; reads no contents.

    folder/clip7.wav        the key is the path up to the first dot of the base name: folder/clip7
    folder/clip7.seg.JSON   the rest is the extension, in lower case: wav, seg.json
    folder/.clip8.wav       hidden: skipped, as are names without a dot and top-level __meta__ files and folders

Files of one sample follow each other. A second file with the same name begins another sample with the same key: such
samples are bad, the others of the shard are not. Differences from the webdataset package: it stops at such a file, and
for a hidden file in a folder it makes a sample with the key ``folder/``; here such a file is skipped.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.readers.tar.archive import TarEntry, walk
from penstock.readers.tar.layout import Member
from penstock.readers.window import Window
from penstock.store.blob import Blob

SCAN_SPAN = 4096  # a header, a small file such as a .json, and the next header in one read


@dataclass(frozen=True, slots=True)
class TarSample:
    """One sample: its key and its files."""

    key: str
    members: tuple[Member, ...]


def split_name(name: str) -> tuple[str, str] | None:
    """Return the key and the extension of a member, or None if it belongs to no sample."""
    top = name.split("/", 1)[0]
    if len(top) >= 4 and top.startswith("__") and top.endswith("__"):
        return None
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    if not stem or not dot:
        return None
    return folder + slash + stem, extension.lower()


def split_at_last_dot(name: str) -> tuple[str, str] | None:
    """Return the key and the extension of a member whose key may contain dots, or None if it has no extension."""
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.rpartition(".")
    return (folder + slash + stem, extension.lower()) if stem and dot else None


def is_text(key: str) -> bool:
    """Return whether a name is valid UTF-8. Other bytes were decoded as lone surrogates."""
    return key.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in key)


def group(
    entries: Iterable[TarEntry], split: Callable[[str], tuple[str, str] | None] = split_name
) -> Iterator[TarSample]:
    """Join consecutive entries with the same key to samples, each with at most one file per extension.

    Args:
        entries: Members of a shard.
        split: Function that returns key and extension of a name, or None if it belongs to no sample.
    """
    key: str | None = None
    members: dict[str, Member] = {}
    for entry in entries:
        named = split(entry.name)
        if named is None:
            continue
        extension = named[1]
        if named[0] != key or extension in members:
            if key is not None:
                yield TarSample(key, tuple(members.values()))
            key = named[0]
            members = {}
        members[extension] = Member(extension, entry.offset, entry.size, entry.crc)
    if key is not None:
        yield TarSample(key, tuple(members.values()))


def scan(blob: Blob, shard: str) -> Iterator[TarSample]:
    """Yield the samples of a shard in order, from its headers alone. ``shard`` is for messages."""
    return group(walk(Window(blob, SCAN_SPAN), shard))
