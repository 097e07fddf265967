"""A plain web server on loopback with files, ranges and versions, and the bad habits that such servers have."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

MODIFIED = "Wed, 21 Oct 2015 07:28:00 GMT"


@dataclass
class Web:
    """Files by their paths, each with its ETag header as sent (empty: none). Conditions are ignored: a bad habit."""

    files: dict[str, tuple[bytes, str]]
    ranges: bool = True
    modified: str = MODIFIED  # the Last-Modified header of all files (empty: none)
    status: int = 0  # answer everything with this
    location: str = ""  # redirect everything to the same path there
    host: str = "127.0.0.1"
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    sent: list[tuple[str, str, int]] = field(default_factory=list)  # method, path, bytes of the body
    url: str = ""

    def __enter__(self) -> Web:
        handler = type("Handler", (WebHandler,), {"web": self})
        self._server = ThreadingHTTPServer((self.host, 0), handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url = f"http://{self.host}:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class WebHandler(BaseHTTPRequestHandler):
    web: Web
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.web.asked.append((self.command, self.path, dict(self.headers.items())))
        if self.web.location:
            return self.answer(307, b"", {"Location": self.web.location + self.path})
        path = unquote(urlsplit(self.path).path)
        if self.web.status or path not in self.web.files:
            return self.answer(self.web.status or 404, b"", {})
        data, etag = self.web.files[path]
        headers = {"Last-Modified": self.web.modified, "ETag": etag}
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not found or not self.web.ranges:
            return self.answer(200, data, headers)
        start, end = int(found[1]), min(int(found[2]) + 1, len(data))
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self.answer(206, data[start:end], headers)

    do_HEAD = do_GET

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.web.sent.append((self.command, unquote(urlsplit(self.path).path), len(body)))

    def log_message(self, *_: object) -> None:
        pass
