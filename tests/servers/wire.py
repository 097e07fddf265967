"""One side of an HTTP/1.1 connection: heads as text, bodies as bytes. Knows nothing of faults."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

CHUNK = 1 << 18


class Wire:
    """A socket that speaks HTTP."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._file = sock.makefile("rb", CHUNK)

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        """The first line and the headers; the line is empty where the other side is gone."""
        first = self._file.readline().decode("latin-1").rstrip("\r\n")
        headers = []
        while line := self._file.readline().decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            headers.append((name.strip(), value.strip()))
        return first, headers

    def body(self, headers: dict[str, str]) -> Iterator[bytes]:
        if "chunked" in headers.get("transfer-encoding", ""):
            while size := int(self._file.readline().split(b";")[0], 16):
                yield self._file.read(size)
                self._file.readline()
            while self._file.readline() not in (b"\r\n", b""):
                pass
            return
        left = int(headers.get("content-length", 0))
        while left:
            data = self._file.read1(min(left, CHUNK))
            if not data:
                raise ConnectionError("the server ended in the middle of a body")
            left -= len(data)
            yield data

    def send_head(self, first: str, headers: Sequence[tuple[str, str]]) -> None:
        lines = [first, *(f"{name}: {value}" for name, value in headers), "", ""]
        self.sock.sendall("\r\n".join(lines).encode("latin-1"))

    def reset(self) -> None:
        """Close so that the other side sees a reset and not an orderly end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._file.close()
        self.sock.close()
