"""Tar archives: their files one after another (ustar, GNU and PAX), and a file appended. Knows nothing of samples.

    header 512 | data, padded to 512 | header | …        L, K: the long name of what follows      x: its PAX records

The tarfile module of the standard library takes a damaged header for the end of the archive; here it is an error. This
is also several times faster, which matters because a run with a plain filelist waits until a shard is scanned.
"""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.readers.errors import ContentError
from penstock.readers.window import Window

BLOCK = 512
_REGULAR = b"\x0007"
_NO_DATA = b"123456"  # links, devices, folders, pipes: no data follows, whatever the size field says
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
_ZEROS = bytes(BLOCK)
_MAX_EXTRA_BYTES = 1 << 20  # size of a long name or of PAX records; more means damage
_LENGTH_DIGITS = 19
_SPARSE = "GNU.sparse"


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One regular file: its name as stored, and where its bytes lie."""

    name: str
    offset: int
    size: int
    crc: int | None = None

    @property
    def after(self) -> int:
        """Offset of the next header."""
        return self.offset + -(-self.size // BLOCK) * BLOCK


def walk(window: Window, shard: str, start: int = 0) -> Iterator[TarEntry]:
    """Yield the regular files of an archive in order.

    Args:
        window: Archive.
        shard: Path of the archive, for messages.
        start: Offset of the first header.

    Raises:
        ContentError: If the archive is damaged, compressed, sparse or not a tar archive.
    """
    if window.size == 0:
        raise ContentError(shard, None, "is empty, not a tar archive")
    if not start and bytes(window.view(0, min(window.size, 8))).startswith(_COMPRESSED):
        raise ContentError(shard, None, "is compressed; random access needs plain tar: decompress it once")
    at = start
    long_name: str | None = None
    pax: dict[str, str] = {}
    while at < window.size:
        header = _header(window, at, shard)
        if header is None:
            break
        kind = header[156:157]
        data = at + BLOCK
        size = _number(header[124:136], "size", at, shard)
        if kind in (b"L", b"K", b"x", b"X", b"g"):
            at = _after(data, size, at, window, shard)
            extra = _extra(window, data, size, shard)
            # The first of several long names is used, as in GNU tar. Global records (g) are about no single file.
            if kind == b"L" and long_name is None:
                long_name = _text(extra)
            elif kind in b"xX":
                pax = _records(extra, data, shard) | pax  # the first of several counts
            continue
        name = pax["path"].rstrip("/") if "path" in pax else long_name or _name(header)
        if kind == b"S" or _SPARSE in pax:
            raise ContentError(shard, None, f"{name!r} at byte {at} is sparse; write the archive without --sparse")
        regular = kind in _REGULAR and not (kind == b"\0" and name.endswith("/"))
        if regular and "size" in pax:
            size = _decimal(pax["size"].encode(errors="replace"), at, shard)
        at = data if kind in _NO_DATA else _after(data, size, at, window, shard)
        long_name = None
        pax = {}
        if regular:
            yield TarEntry(name, data, size)
    if pax or long_name is not None:
        raise ContentError(shard, None, f"is cut short: byte {at} should begin the file that a long name precedes")


def add_file(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Append a file, without an owner and with time 0: the same files give the same archive on every machine."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _header(window: Window, at: int, shard: str) -> bytes | None:
    """Return the header at an offset, or None at the end of the archive."""
    if at + BLOCK > window.size:
        raise ContentError(shard, None, f"is cut short: byte {at} begins a header, but there are {window.size} bytes")
    header = bytes(window.view(at, BLOCK))
    if header == _ZEROS:
        return None
    written = _number(header[148:156], "checksum", at, shard)
    # The checksum field itself counts as spaces. Some old writers summed signed bytes.
    total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if written != total and written != total - 256 * sum(byte > 127 for byte in header):
        raise ContentError(shard, None, _not_a_header(at))
    return header


def _not_a_header(at: int) -> str:
    return f"no valid tar header at byte {at}" + ("; the archive is damaged" if at else "; it is not a tar archive")


def _after(data: int, size: int, at: int, window: Window, shard: str) -> int:
    """Return the offset of the next header."""
    after = data + -(-size // BLOCK) * BLOCK
    if after > window.size:
        reason = f"is cut short: the member at byte {at} ends at byte {after}, but there are {window.size} bytes"
        raise ContentError(shard, None, reason)
    return after


def _extra(window: Window, data: int, size: int, shard: str) -> bytes:
    if size > _MAX_EXTRA_BYTES:
        raise ContentError(shard, None, f"a name of {size} bytes at byte {data}; the archive is damaged")
    return bytes(window.view(data, size))


def _number(field: bytes, what: str, at: int, shard: str) -> int:
    if field[0] == 0x80:  # base 256, for what does not fit into octal digits
        return int.from_bytes(field[1:], "big")
    try:
        value = int(field.split(b"\0", 1)[0].strip() or b"0", 8)
    except ValueError:
        value = -1
    if value < 0:
        raise ContentError(shard, None, _not_a_header(at) + f" (its {what} is {field!r})")
    return value


def _name(header: bytes) -> str:
    name = _text(header[:100])
    # The GNU format ("ustar  ") has times where ustar has the prefix.
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _records(data: bytes, at: int, shard: str) -> dict[str, str]:
    """Parse PAX records: ``<length> <key>=<value>\\n``, where the length includes itself.

    Only keys that are used here are returned: an archive may have any number of others.
    """
    records = {}
    start = 0
    while start < len(data) and data[start]:
        digits = data[start : start + _LENGTH_DIGITS + 1].partition(b" ")[0]
        end = start + _decimal(digits, at, shard)
        key, equals, value = data[start + len(digits) + 1 : end - 1].partition(b"=")
        if end <= start or not equals or data[end - 1 : end] != b"\n":
            raise ContentError(shard, None, f"damaged PAX records at byte {at}")
        if key in (b"path", b"size"):
            records[key.decode()] = value.decode("utf-8", "surrogateescape")
        elif key.startswith(b"GNU.sparse."):
            records[_SPARSE] = ""
        start = end
    return records


def _decimal(digits: bytes, at: int, shard: str) -> int:
    if not digits.isdigit() or len(digits) > _LENGTH_DIGITS:
        raise ContentError(shard, None, f"damaged PAX records at byte {at}: {digits[:20]!r} is not a number")
    return int(digits)
