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

        The whole file is verified first, unless that was done: once per download of a remote store, once per open of a
        local file. Of a local file that is the one that was indexed, only the first member that is read is verified.
        """
        blob = self.blobs.get(self.shard.path, self.shard.size)
        if isinstance(blob, CachedBlob | LocalBlob):
            self._verify(blob)
        blob.readinto(buffer, self.member.offset + offset)

    def in_place(self) -> memoryview | None:
        """Return the bytes zero-copy, from the memory map of a local file, or None if they have to be read.

        They are verified as in ``readinto``.
        """
        blob = self.blobs.get(self.shard.path, self.shard.size)
        if not isinstance(blob, LocalBlob):
            return None
        self._verify(blob)
        return blob.view(self.member.offset, self.member.size)

    def read(self) -> bytes:
        """Return the whole file, verified each time."""
        return self._whole(self.blobs.get(self.shard.path, self.shard.size))

    def _verify(self, blob: CachedBlob | LocalBlob) -> None:
        member = self.member
        end = member.offset + member.size
        if member.crc is None or blob.is_checked(member.offset, end):
            return
        self._whole(blob)
        blob.note_checked(member.offset, end)
        # Not changed since it was indexed: verifying each member would halve the speed of WAV crops.
        if isinstance(blob, LocalBlob) and blob.stamp == self.shard.version:
            blob.trust()

    def _whole(self, blob: Blob, repair: bool = True) -> bytes:
        member = self.member
        buffer = bytearray(member.size)
        blob.readinto(memoryview(buffer), member.offset)
        if member.crc is None or zlib.crc32(buffer) == member.crc:
            return bytes(buffer)
        if repair and isinstance(blob, CachedBlob) and _repaired(blob, member):
            return self._whole(blob, repair=False)
        reason = f".{member.ext} is damaged: its checksum is not the one in the manifest"
        if isinstance(blob, LocalBlob):
            blob.doubt()
            if blob.stamp != self.shard.version:
                reason += "; the shard is not the file that was indexed: if it was replaced, index it again"
        raise ContentError(self.shard.path, None, reason)


def _repaired(blob: CachedBlob, member: Member) -> bool:
    """Fetch a member again. Returns whether the store has the right bytes, so that the cached copy was damaged."""
    return blob.fetch_again(member.offset, member.offset + member.size, lambda data: zlib.crc32(data) == member.crc)
