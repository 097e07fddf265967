"""The dataset hub as the ``datasets`` library asks it: HEADs with ETags, folders listed one by one. On loopback."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from tests.servers.hub import COMMIT, Hub, HubHandler, serve


class DatasetHub(Hub):
    """``others`` are repositories that it refuses, each with a status and the hub's code for it."""

    others: Mapping[str, tuple[int, str]] = MappingProxyType({})

    def __enter__(self) -> DatasetHub:
        self._servers = [serve(self, DatasetHandler)]
        self.url = f"http://127.0.0.1:{self._servers[0].server_address[1]}"
        return self


class DatasetHandler(HubHandler):
    hub: DatasetHub

    def refused(self, path: str) -> bool:
        """Whether the request is for another repository: answered here."""
        found = re.match(r"/(?:api/)?datasets/([^/]+/[^/]+)", path)
        if found is None or found[1] == self.hub.repo:
            return False
        status, code = self.hub.others.get(found[1], (401, "RepoNotFound"))
        self.answer(status, b"", {"X-Error-Code": code, "X-Error-Message": code, "Retry-After": "0"})
        return True

    def do_GET(self) -> None:
        path, repo = unquote(urlsplit(self.path).path), re.escape(self.hub.repo)
        self.hub.asked.append(path)
        if self.refused(path):
            return None
        if re.fullmatch(rf"/api/datasets/{repo}(?:/revision/.*)?", path):
            return self.answer(200, json.dumps({"id": self.hub.repo, "sha": COMMIT}).encode())
        if found := re.fullmatch(rf"/api/datasets/{repo}/tree/{COMMIT}/?(.*)", path):
            if "recursive=true" in self.path.lower():
                return self.answer(200, json.dumps(self.all_below(found[1])).encode())
            return self.answer(200, json.dumps(self.children(PurePosixPath(found[1]))).encode())
        data = self.resolved(path)
        self.answer(404, b"", {"X-Error-Code": "EntryNotFound"}) if data is None else self.ranged(data)

    def do_HEAD(self) -> None:
        if self.refused(unquote(urlsplit(self.path).path)):
            return
        data = self.resolved(unquote(urlsplit(self.path).path))
        self.send_response(404 if data is None else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Error-Code", "EntryNotFound") if data is None else self.send_header("ETag", etag(data))
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()

    def resolved(self, path: str) -> bytes | None:
        revision = rf"(?:{COMMIT}|main|refs/convert/parquet)"
        found = re.fullmatch(rf"/datasets/{re.escape(self.hub.repo)}/resolve/{revision}/(.*)", path)
        return self.hub.files.get(found[1]) if found else None

    def all_below(self, folder: str) -> list[dict[str, object]]:
        return [
            {
                "type": "file",
                "path": name,
                "oid": etag(data)[1:41],
                "size": len(data),
                "lfs": {"oid": etag(data)[1:-1], "size": len(data), "pointerSize": 130},
            }
            for name, data in self.hub.files.items()
            if name.startswith(folder)
        ]

    def children(self, folder: PurePosixPath) -> list[dict[str, object]]:
        entries: dict[str, dict[str, object]] = {}
        for name, data in self.hub.files.items():
            for path in (PurePosixPath(name), *PurePosixPath(name).parents):
                if path.parent == folder and path != folder:
                    file = str(path) == name
                    kind, size = ("file", len(data)) if file else ("directory", 0)
                    entries[str(path)] = {"type": kind, "path": str(path), "oid": etag(data)[1:41], "size": size}
        return list(entries.values())


def etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()}"'
