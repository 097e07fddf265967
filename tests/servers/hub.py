"""A dataset hub on loopback: its tree, revision and resolve API, redirects to a second host, and its refusals.

Small files are answered by the hub itself, large ones (LFS) by a redirect to the "CDN", another port, with a signature
that can be made to run out. The CDN refuses requests that bring the hub's token.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
LARGE = 1000


@dataclass
class Hub:
    """Its files, its moods, and what it was asked. ``refusals`` are given to the next requests, one each."""

    repo: str
    files: dict[str, bytes]
    token: str = ""
    page: int = 2
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    signature: int = 1
    asked: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    url: str = ""
    cdn_url: str = ""

    def __enter__(self) -> Hub:
        self._servers = [serve(self, HubHandler), serve(self, CdnHandler)]
        self.url, self.cdn_url = (f"http://127.0.0.1:{server.server_address[1]}" for server in self._servers)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def count(self, word: str) -> int:
        return sum(word in entry for entry in self.asked)


def serve(hub: Hub, handler: type[HubHandler]) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"hub": hub}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class HubHandler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.hub.asked.append(self.path)
        self.hub.times.append(time.monotonic())
        if self.hub.refusals:
            status, headers = self.hub.refusals.pop(0)
            return self.answer(status, b"", headers)
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self.answer(401, b"", {"X-Error-Message": "Repository Not Found"})
        url = urlsplit(self.path)
        path, repo = unquote(url.path), re.escape(self.hub.repo)
        if found := re.fullmatch(rf"/api/datasets/{repo}/revision/(.*)", path):
            known = found[1] in ("main", "feature/x", "refs/convert/parquet")
            body = json.dumps({"sha": COMMIT}).encode()
            return self.answer(200, body) if known else self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        if found := re.fullmatch(rf"/api/datasets/{repo}/tree/{COMMIT}/?(.*)", path):
            return self.tree(found[1], int(parse_qs(url.query).get("cursor", ["0"])[0]))
        if (found := re.fullmatch(rf"/datasets/{repo}/resolve/{COMMIT}/(.*)", path)) and found[1] in self.hub.files:
            data = self.hub.files[found[1]]
            if len(data) < LARGE:
                return self.ranged(data)
            signed = f"{self.hub.cdn_url}/{found[1]}?signature={self.hub.signature}"
            return self.answer(302, b"", {"Location": signed})
        if found := re.fullmatch(rf"/api/buckets/{repo}/tree/?(.*)", path):
            return self.tree(found[1], int(parse_qs(url.query).get("cursor", ["0"])[0]), bucket=True)
        if (found := re.fullmatch(rf"/buckets/{repo}/resolve/(.*)", path)) and found[1] in self.hub.files:
            signed = f"{self.hub.cdn_url}/{found[1]}?signature={self.hub.signature}"
            return self.answer(302, b"", {"Location": signed})
        self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})

    def tree(self, folder: str, cursor: int, bucket: bool = False) -> None:
        paths = [path for path in sorted(self.hub.files, reverse=True) if not folder or path.startswith(folder + "/")]
        entries: list[dict[str, object]] = [{"type": "directory", "path": "somewhere", "oid": "0", "size": 0}]
        for path in paths[cursor : cursor + self.hub.page]:
            data = self.hub.files[path]
            oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry: dict[str, object] = {"type": "file", "path": path, "oid": oid, "size": len(data)}
            if bucket:
                entry = {"type": "file", "path": path, "xetHash": digest(data), "size": len(data)}
            elif len(data) >= LARGE:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            entries.append(entry)
        more = cursor + self.hub.page
        link = f'<{self.hub.url}{urlsplit(self.path).path}?recursive=true&cursor={more}>; rel="next"'
        self.answer(200, json.dumps(entries).encode(), {"Link": link} if more < len(paths) else {})

    def ranged(self, data: bytes, headers: dict[str, str] | None = None) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not found:
            return self.answer(200, data, headers)
        start, end = int(found[1]), int(found[2]) + 1
        about = {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
        self.answer(206, data[start:end], about | (headers or {}))

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class CdnHandler(HubHandler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.hub.asked.append(f"cdn {self.path}")
        if "Authorization" in self.headers:
            return self.answer(400, b"a token was sent to the wrong host")
        if parse_qs(url.query).get("signature") != [str(self.hub.signature)]:
            return self.answer(403, b"expired")
        data = self.hub.files[unquote(url.path)[1:]]
        self.ranged(data, {"X-Xet-Hash": digest(data)})
