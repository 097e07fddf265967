"""The fault proxy's process: takes requests, meets them with the rules, passes them on. Knows nothing of S3."""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from urllib.parse import unquote, urlsplit

from tests.servers.faultproxy import CONTROL, Request, Rule
from tests.servers.wire import Wire


class Faults:
    """The rules, the draws and the log, shared by all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        with self._lock:
            self._log: list[Request] = []
        self.set_rules([], 0)

    def set_rules(self, rules: Sequence[dict[str, object]], seed: int) -> None:
        with self._lock:
            self._rules = [Rule(**rule) for rule in rules]  # type: ignore[arg-type]
            self._left = [rule.times for rule in self._rules]
            self._random = random.Random(seed)

    def meet(self, method: str, path: str, query: str, start: int, end: int) -> tuple[Rule | None, Request]:
        """The rule that applies to a request, and its line in the log, to be filled in."""
        with self._lock:
            rule = self._draw(method, path, start >= 0)
            fault = rule.fault if rule else ""
            entry = Request(len(self._log), time.time(), method, path, query, start, end, fault)
            self._log.append(entry)
            return rule, entry

    def _draw(self, method: str, path: str, ranged: bool) -> Rule | None:
        for i, rule in enumerate(self._rules):
            applies = rule.method in ("", method) and rule.ranged in (None, ranged) and self._left[i] != 0
            if applies and re.search(rule.key, path) and self._random.random() < rule.probability:
                left = self._left[i]
                self._left[i] = None if left is None else left - 1
                return rule
        return None

    def entries(self) -> list[dict[str, object]]:
        with self._lock:
            return [asdict(entry) for entry in self._log]


class Broken(Exception):
    """The fault of this request was to break its connection."""


class Connection:
    """A client's connection and the one to the server behind it, both kept alive."""

    def __init__(self, client: socket.socket, upstream: tuple[str, int], faults: Faults) -> None:
        self._client = Wire(client)
        self._address = upstream
        self._server: Wire | None = None
        self._faults = faults

    def serve(self) -> None:
        try:
            while self._one_request():
                pass
            self._client.close()
        except (Broken, OSError, ValueError):
            self._client.reset()
        finally:
            if self._server:
                self._server.close()

    def _one_request(self) -> bool:
        first, headers = self._client.head()
        if not first:
            return False
        method, target, _ = first.split(" ", 2)
        named = {name.lower(): value for name, value in headers}
        if "100-continue" in named.get("expect", ""):
            self._client.send_head("HTTP/1.1 100 Continue", [])
        body = b"".join(self._client.body(named))
        if target.startswith(CONTROL):
            return self._control(target.removeprefix(CONTROL), body)
        url = urlsplit(target)
        path = unquote(url.path)
        start, end = parse_range(named.get("range", ""))
        rule, entry = self._faults.meet(method, path, url.query, start, end)
        if rule and rule.fault == "reset":
            raise Broken
        if rule and rule.fault == "delay":
            time.sleep(rule.seconds)
        if rule and rule.fault == "status":
            entry.status = rule.status
            self._refuse(rule, method)
        else:
            entry.status, answer = self._ask(first, headers, body)
            self._answer(method, answer, rule, entry)
        return True

    def _ask(self, first: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, list[tuple[str, str]]]:
        kept = [(n, v) for n, v in headers if n.lower() not in ("expect", "transfer-encoding", "content-length")]
        if body or any(n.lower() in ("transfer-encoding", "content-length") for n, _ in headers):
            kept.append(("Content-Length", str(len(body))))
        for fresh in (False, True):
            if self._server is None or fresh:
                self._server = Wire(socket.create_connection(self._address))
            try:
                self._server.send_head(first, kept)
                self._server.sock.sendall(body)
                line, answer = self._server.head()
            except OSError:
                line = ""
            if line:  # otherwise a kept connection that the server has closed meanwhile: once more, on a new one
                return int(line.split(" ")[1]), answer
            self._server.close()
        raise ConnectionError("no answer from the server behind the proxy")

    def _answer(self, method: str, headers: list[tuple[str, str]], rule: Rule | None, entry: Request) -> None:
        assert self._server is not None
        status = entry.status
        named = {name.lower(): value for name, value in headers}
        bare = method == "HEAD" or status in (204, 304)
        fault = rule.fault if rule and status < 300 and not bare else ""
        chunked = "transfer-encoding" in named
        if chunked:  # answered with a length, so that the faults need not know of chunks
            data = b"".join(self._server.body(named))
            headers = [(n, v) for n, v in headers if n.lower() != "transfer-encoding"]
            headers.append(("Content-Length", str(len(data))))
            pieces: Iterator[bytes] = iter([data])
        else:
            pieces = iter(()) if bare else self._server.body(named)
        if fault == "truncate" and rule:
            headers = [(n, str(min(int(v), rule.after)) if n.lower() == "content-length" else v) for n, v in headers]
        self._client.send_head(f"HTTP/1.1 {status} {'OK' if status < 300 else 'Said the server'}", headers)
        for piece in pieces:
            at, entry.sent = entry.sent, entry.sent + len(piece)
            self._client.sock.sendall(self._damaged(piece, fault, rule, at))
        if "close" in named.get("connection", "").lower():
            self._server.close()
            self._server = None

    def _damaged(self, piece: bytes, fault: str, rule: Rule | None, at: int) -> bytes:
        """The piece of the body that starts ``at``, as the client is to see it."""
        if rule is None or fault not in ("cut", "truncate", "corrupt", "slow"):
            return piece
        if fault == "slow":
            time.sleep(len(piece) / rule.bytes_per_second)
        if fault == "corrupt" and at <= rule.after < at + len(piece):
            where = rule.after - at
            return piece[:where] + bytes([piece[where] ^ 0xFF]) + piece[where + 1 :]
        if fault == "truncate":
            return piece[: max(0, rule.after - at)]
        if fault == "cut" and at + len(piece) > rule.after:
            self._client.sock.sendall(piece[: rule.after - at])
            raise Broken
        return piece

    def _refuse(self, rule: Rule, method: str) -> None:
        code = b"StorageFull" if rule.status == 507 else b"SlowDown"
        error = b"<Error><Code>%s</Code><Message>injected</Message></Error>" % code
        body = b"" if method == "HEAD" else error
        headers = [("Content-Length", str(len(body)))]
        if rule.retry_after:
            headers.append(("Retry-After", rule.retry_after))
        self._client.send_head(f"HTTP/1.1 {rule.status} Injected", headers)
        self._client.sock.sendall(body)

    def _control(self, what: str, body: bytes) -> bool:
        data = json.loads(body or b"null")
        answer: object = None
        if what == "rules":
            self._faults.set_rules(data["rules"], data["seed"])
        elif what == "log":
            answer = self._faults.entries()
        elif what == "clear":
            self._faults.clear()
        text = json.dumps(answer).encode()
        self._client.send_head("HTTP/1.1 200 OK", [("Content-Length", str(len(text)))])
        self._client.sock.sendall(text)
        return True


def parse_range(header: str) -> tuple[int, int]:
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", header)
    if not found:
        return -1, -1
    return int(found[1]), int(found[2]) + 1 if found[2] else -1


def main(netloc: str) -> None:
    host, port = netloc.split(":")
    faults = Faults()
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            connection = Connection(client, (host, int(port)), faults)
            threading.Thread(target=connection.serve, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
