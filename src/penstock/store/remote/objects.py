"""Objects in S3, R2, GCS, Azure and behind HTTP, through obstore. Knows versions, retries and the budget; no files."""

import datetime
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from penstock.store.remote.budget import RequestBudget
from penstock.store.remote.clients import make_client
from penstock.store.remote.failures import explain
from penstock.store.remote.forksafe import keep_over_fork, obstore
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, StoreError
from penstock.store.remote.retry import Retrier
from penstock.store.remote.urls import Location

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ListStream, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")
MODIFIED = "mtime-"


class Session:
    """What one process holds of a store; made when first needed and never used by another process."""

    def __init__(self, at: Location, options: StoreOptions) -> None:
        self.retrier = Retrier(options.retry_seconds)
        self.obstore: ModuleType = obstore()
        self.client: ObjectStore = make_client(self.obstore, at, options)
        keep_over_fork(self)


class ObjectRemote:
    """A bucket's prefix, or a folder of a web server."""

    def __init__(self, at: Location, options: StoreOptions) -> None:
        self._at = at
        self._options = options
        self._sessions: dict[int, Session] = {}  # by process; a forked child never touches, nor frees, its parent's
        rate = options.requests_per_second
        # The limit is the bucket's, whatever prefix is read.
        name = f"{options.endpoint} {at.scheme} {at.account} {at.bucket}"
        self._budget = RequestBudget(name, rate) if rate else None

    @property
    def url(self) -> str:
        return self._at.url

    @property
    def retries(self) -> int:
        session = self._sessions.get(os.getpid())
        return session.retrier.count if session else 0

    def __reduce__(self) -> tuple[type["ObjectRemote"], tuple[Location, StoreOptions]]:
        return type(self), (self._at, self._options)

    def __repr__(self) -> str:
        return f"ObjectRemote({self.url!r})"

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        return self._ask(key, lambda here: info_of(here.obstore.head(here.client, path)))

    def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
        if start >= end:
            return memoryview(b"")
        path = self._path(key)
        wanted: GetOptions = {"range": (start, end), **conditions(etag)}

        def get(here: Session) -> tuple[ObjectInfo, memoryview]:
            result: GetResult = here.obstore.get(here.client, path, options=wanted)
            found, data = info_of(result.meta), memoryview(result.bytes())
            if len(data) != end - start and found.size >= end and found.etag == etag:
                raise ConnectionError(f"the answer ended after {len(data)} of {end - start} bytes")
            return found, data

        found, data = self._ask(key, get)
        # A server may ignore If-Match, and weak ETags cannot be sent in it: what came is looked at in any case.
        if found.etag != etag:
            raise ObjectChanged(f"{self.url}/{key}: asked for version {etag}, but it is {found.etag} now")
        if len(data) != end - start:
            raise ObjectChanged(f"{self.url}/{key}: bytes up to {end} were asked for, but it has {found.size} now")
        return data

    def list(self, prefix: str = "") -> Iterator[tuple[str, ObjectInfo]]:
        if self._at.scheme in ("http", "https"):
            raise StoreError(f"{self.url}: a web server cannot be listed; name the objects in a manifest")
        folder = "/".join(part for part in (self._at.prefix, prefix.strip("/")) if part)
        pages = Pages(folder)
        while page := self._ask(prefix, pages.next):
            for meta in page:
                # S3 tools mark empty folders by objects of no bytes whose name ends in a slash: not data.
                if meta["path"] and not meta["path"].endswith("/"):
                    yield meta["path"].removeprefix(self._at.prefix).lstrip("/"), info_of(meta)

    def put(self, key: str, file: Path) -> None:
        """Store a file as an object, which appears whole or not at all."""
        path = self._path(key)
        self._ask(key, lambda here: here.obstore.put(here.client, path, file))

    def _path(self, key: str) -> str:
        parts = key.split("/")
        if not key or "\0" in key or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"{self.url}: {key!r} is no key of an object (an empty part, '.', '..' or NUL in it)")
        return f"{self._at.prefix}/{key}" if self._at.prefix else key

    def _ask(self, key: str, request: Callable[[Session], T]) -> T:
        here = self._here()

        def once() -> T:
            if self._budget:
                self._budget.take()
            return request(here)

        return here.retrier.run(f"{self.url}/{key}".rstrip("/"), once, explain)

    def _here(self) -> Session:
        process = os.getpid()
        # Of two threads that come here first the session of one serves both, so that no retry is counted in vain.
        return self._sessions.get(process) or self._sessions.setdefault(process, self._start())

    def _start(self) -> Session:
        try:
            return Session(self._at, self._options)
        except ValueError:
            raise  # a profile that cannot be used, in our own words
        except Exception as error:
            failure = explain(error)
        raise failure.kind.value(f"{self.url}: {failure.cause}")


class Pages:
    """A listing in pages of 1,000, which after a failure goes on behind the last object that came."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._last: str | None = None
        self._stream: ListStream[list[ObjectMeta]] | None = None

    def next(self, here: Session) -> "list[ObjectMeta]":
        """The next page; an empty one at the end."""
        stream, self._stream = self._stream, None
        if stream is None:
            stream = here.obstore.list(here.client, self._folder or None, offset=self._last, chunk_size=1000)
        page = list(next(stream, ()))
        if page:
            self._last, self._stream = page[-1]["path"], stream
        return page


def info_of(meta: "ObjectMeta") -> ObjectInfo:
    etag = meta["e_tag"] or ""
    if not etag:
        return ObjectInfo(meta["size"], f"{MODIFIED}{meta['last_modified'].timestamp():.0f}-{meta['size']}")
    return ObjectInfo(meta["size"], etag if etag.startswith("W/") else etag.strip('"'))


def conditions(etag: str) -> "GetOptions":
    """The headers that make the server itself refuse another version, where it can."""
    if etag.startswith(MODIFIED):
        seconds = float(etag.removeprefix(MODIFIED).split("-")[0])
        return {"if_unmodified_since": datetime.datetime.fromtimestamp(seconds, datetime.UTC)}
    return {} if etag.startswith("W/") else {"if_match": f'"{etag}"'}
