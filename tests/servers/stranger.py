"""A web server on loopback that nobody should trust: endless, slow, lying, or redirecting elsewhere."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Stranger:
    """Answers each connection by calling ``answer(path, connection)``, which sends raw bytes.

    A path ``/redirect?URL`` redirects to that URL, whatever ``answer`` does.
    """

    answer: Callable[[str, socket.socket], None]
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Stranger:
        self._listener = socket.create_server((self.host, 0))
        self.url = f"http{'s' if self.tls else ''}://{self.host}:{self._listener.getsockname()[1]}"
        self.over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        if self.tls:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except OSError:  # the client does not trust us
                return connection.close()
        with connection:
            head = b""
            while b"\r\n\r\n" not in head and (more := connection.recv(4096)):
                head += more
            if not head:
                return
            self.heads.append(head.decode())
            path = head.split()[1].decode()
            self.asked.append(path)
            try:
                if path.startswith("/redirect?"):
                    target = path.partition("?")[2]
                    whole(b"", "302 Found", f"Location: {target}")(path, connection)
                else:
                    self.answer(path, connection)
            except OSError:
                pass  # the client went away


def whole(body: bytes, status: str = "200 OK", *headers: str) -> Callable[[str, socket.socket], None]:
    """Return an answer with a body and its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return lambda _, connection: connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
