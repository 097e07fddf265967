"""One file in a tar shard, as a recipe reads it. It is open only while it is read: a record holds no open file."""

import zlib
from typing import NamedTuple

from penstock.readers.blobs import OpenBlobs
from penstock.readers.errors import ContentError
from penstock.readers.tar.layout import Member, Shard
from penstock.store.blob import Blob
from penstock.store.cache.blob import CachedBlob
from penstock.store.local import LocalBlob


class MemberFile(NamedTuple):
    """One file of a sample. If the manifest has its checksum, bytes that do not match raise ``ContentError``."""

    blobs: OpenBlobs
    shard: Shard
    member: Member

    @property
    def size(self) -> int:
        return self.member.size

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer with the bytes from ``offset`` on.

        A file of a remote store is verified as a whole, once per download. A file of a local folder is not verified.
        """
        shard = self.shard
        member = self.member
        blob = self.blobs.get(shard.path, shard.size)
        if member.crc is not None and isinstance(blob, CachedBlob):
            end = member.offset + member.size
            if not blob.is_checked(member.offset, end):
                self._whole(blob)
                blob.note_checked(member.offset, end)
        blob.readinto(buffer, member.offset + offset)

    def in_place(self) -> memoryview | None:
        """Return the bytes zero-copy, from the memory map of a local file, or None if they have to be read."""
        blob = self.blobs.get(self.shard.path, self.shard.size)
        return blob.view(self.member.offset, self.member.size) if isinstance(blob, LocalBlob) else None

    def read(self) -> bytes:
        """Return the whole file, verified each time."""
        return self._whole(self.blobs.get(self.shard.path, self.shard.size))

    def _whole(self, blob: Blob) -> bytes:
        member = self.member
        buffer = bytearray(member.size)
        blob.readinto(memoryview(buffer), member.offset)
        if member.crc is None or zlib.crc32(buffer) == member.crc:
            return bytes(buffer)
        if isinstance(blob, CachedBlob) and _repaired(blob, member):
            return self._whole(blob)
        reason = f".{member.ext} is damaged: its checksum is not the one in the manifest"
        raise ContentError(self.shard.path, None, reason)


def _repaired(blob: CachedBlob, member: Member) -> bool:
    """Fetch a member again. Returns whether the store has the right bytes, so that the cached copy was damaged."""
    return blob.fetch_again(member.offset, member.offset + member.size, lambda data: zlib.crc32(data) == member.crc)
