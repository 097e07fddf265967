"""A fault proxy on loopback, as tests hold it: rules to set, a log to read. What it does is in ``faults``.

It is a process of its own, so that it never shares a GIL with what is tested, and ends when the pipe to its parent
closes, however the parent dies. Host and all other headers go on unchanged, so SigV4 signatures made for the proxy's
address stay valid behind it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

CONTROL = "/--faultproxy--/"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault and the requests that meet it. The first rule of the list that applies to a request is taken."""

    fault: str  # delay | status | reset | cut | truncate | corrupt | slow
    method: str = "GET"  # "" is any
    key: str = ""  # a regular expression, searched in the decoded path ("/bucket/key")
    ranged: bool | None = None  # only requests with (True) or without (False) a Range header
    probability: float = 1.0
    times: int | None = None  # at most so many requests, then the rule is spent
    after: int = 0  # cut, truncate: body bytes that still come; corrupt: the body byte that is flipped
    seconds: float = 0.0  # delay: waits so long before the request goes on
    status: int = 503  # status: the answer, given without asking the server
    retry_after: str = ""  # status: the header's value
    bytes_per_second: float = 1e6  # slow: the pace of the body


@dataclass(slots=True)
class Request:
    """One request as the proxy saw it. ``start`` and ``end`` are the Range (end exclusive), -1 without one."""

    order: int
    time: float
    method: str
    path: str
    query: str
    start: int
    end: int
    fault: str
    status: int = 0  # 0: none was sent
    sent: int = 0  # body bytes that came from the server for the client

    @property
    def key(self) -> str:
        """The path without its bucket."""
        return self.path.split("/", 2)[2] if self.path.count("/") > 1 else ""


class FaultProxy:
    """The handle tests hold: ``url`` to talk to, ``rules`` to set, ``log`` to read."""

    def __init__(self, upstream: str) -> None:
        command = [sys.executable, "-m", "tests.servers.faults", urlsplit(upstream).netloc]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def rules(self, *rules: Rule, seed: int = 0) -> None:
        """Replace all rules. ``seed`` starts the draws of rules with a probability."""
        self._control("rules", {"rules": [asdict(rule) for rule in rules], "seed": seed})

    def log(self, method: str = "") -> list[Request]:
        """All requests since the last ``clear`` in order of arrival, those under way too."""
        entries = [Request(**entry) for entry in self._control("log")]  # type: ignore[arg-type]
        return [entry for entry in entries if method in ("", entry.method)]

    def clear(self) -> None:
        """Forget rules and log."""
        self._control("clear")

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # closes its stdin, which is its sign to end

    def _control(self, what: str, data: object = None) -> list[dict[str, object]]:
        request = urllib.request.Request(self.url + CONTROL + what, data=json.dumps(data).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            return json.load(answer)
