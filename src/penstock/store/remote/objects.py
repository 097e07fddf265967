"""Objects in S3, R2, GCS, Azure and behind HTTP, through obstore. Knows versions, retries and the budget; no files."""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from penstock.runtime.daemons import interruptibly
from penstock.runtime.forking import reset_in_children
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
MTIME_PREFIX = "mtime-"
NO_VERSION_PREFIX = "mtime-0-"  # obstore gives the year 1970 to an object without a date


class ClientSession:
    """The client and retry state of one process; made when first needed and never used by another process."""

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
        self._starting = Lock()
        self._session: ClientSession | None = None
        self._inherited: list[ClientSession | None] = []
        rate = options.requests_per_second
        # The limit is the bucket's, whatever prefix is read.
        name = f"{options.endpoint} {at.scheme} {at.account} {at.bucket}"
        self._budget = RequestBudget(name, rate) if rate else None
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start without a session: a child neither uses nor frees its parent's."""
        self._starting = Lock()
        self._inherited.append(self._session)
        self._session = None

    @property
    def url(self) -> str:
        return self._at.url

    @property
    def retries(self) -> int:
        return self._session.retrier.count if self._session else 0

    def __reduce__(self) -> tuple[type["ObjectRemote"], tuple[Location, StoreOptions]]:
        return type(self), (self._at, self._options)

    def __repr__(self) -> str:
        return f"ObjectRemote({self.url!r})"

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        info = self._ask(key, lambda here: info_of(here.obstore.head(here.client, path)))
        if info.etag.startswith(NO_VERSION_PREFIX):
            raise StoreError(
                f"{self.url}/{key}: the server sends neither ETag nor Last-Modified, so an object that is replaced "
                "while it is read could not be noticed; let the server send one of them, or copy the data into a folder"
            )
        return info

    def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
        if start >= end:
            return memoryview(b"")
        path = self._path(key)
        wanted: GetOptions = {"range": (start, end), **conditions(etag)}

        def get(here: ClientSession) -> tuple[ObjectInfo, memoryview]:
            result: GetResult = here.obstore.get(here.client, path, options=wanted)
            found = info_of(result.meta)
            data = memoryview(result.bytes())
            if len(data) != end - start and found.size >= end and found.etag == etag:
                raise ConnectionError(f"the answer ended after {len(data)} of {end - start} bytes")
            return found, data

        found, data = self._ask(key, get)
        # A server may ignore If-Match, and weak ETags cannot be sent in it: the answer is always checked.
        if found.etag != etag:
            raise ObjectChanged(f"{self.url}/{key}: version {etag} requested, but it is {found.etag} now")
        if len(data) != end - start:
            raise ObjectChanged(f"{self.url}/{key}: bytes up to {end} were requested, but it has {found.size} now")
        return data

    def list(self, prefix: str = "") -> Iterator[tuple[str, ObjectInfo]]:
        if self._at.scheme in ("http", "https"):
            raise StoreError(f"{self.url}: a web server cannot be listed; name the objects in a manifest")
        folder = "/".join(part for part in (self._at.prefix, prefix.strip("/")) if part)
        pages = Pages(folder)
        while page := self._ask(prefix, pages.next):
            for meta in page:
                # S3 tools mark empty folders by empty objects whose name ends in a slash; they are not data.
                if meta["path"] and not meta["path"].endswith("/"):
                    yield meta["path"].removeprefix(self._at.prefix).lstrip("/"), info_of(meta)

    def put(self, key: str, file: Path) -> None:
        """Store a file as an object, which appears whole or not at all."""
        path = self._path(key)
        self._ask(key, lambda here: here.obstore.put(here.client, path, file))

    def _path(self, key: str) -> str:
        parts = key.split("/")
        if not key or "\0" in key or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"{self.url}: {key!r} is not a valid key (it has an empty component, '.', '..' or NUL)")
        return f"{self._at.prefix}/{key}" if self._at.prefix else key

    def _ask(self, key: str, request: Callable[[ClientSession], T]) -> T:
        here = self._here()

        def once() -> T:
            if self._budget:
                self._budget.take()
            return interruptibly(lambda: request(here))

        return here.retrier.run(f"{self.url}/{key}".rstrip("/"), once, explain)

    def _here(self) -> ClientSession:
        if self._session is None:
            with self._starting:  # one session for all threads, so that all retries are counted
                if self._session is None:
                    self._session = self._start()
        return self._session

    def _start(self) -> ClientSession:
        try:
            return ClientSession(self._at, self._options)
        except ValueError:
            raise  # a profile that cannot be used; the message is ours
        except Exception as error:
            failure = explain(error)
        raise failure.kind.value(f"{self.url}: {failure.cause}")


class Pages:
    """A listing in pages of 1,000, which resumes after the last received object when a request failed."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._last: str | None = None
        self._stream: ListStream[list[ObjectMeta]] | None = None

    def next(self, here: ClientSession) -> "list[ObjectMeta]":
        """Return the next page; an empty one at the end."""
        stream = self._stream
        self._stream = None
        if stream is None:
            stream = here.obstore.list(here.client, self._folder or None, offset=self._last, chunk_size=1000)
        page = list(next(stream, ()))
        if page:
            self._last = page[-1]["path"]
            self._stream = stream
        return page


def info_of(meta: "ObjectMeta") -> ObjectInfo:
    etag = meta["e_tag"] or ""
    if not etag:
        return ObjectInfo(meta["size"], f"{MTIME_PREFIX}{meta['last_modified'].timestamp():.0f}-{meta['size']}")
    return ObjectInfo(meta["size"], etag if etag.startswith("W/") else etag.strip('"'))


def conditions(etag: str) -> "GetOptions":
    """Return the headers that make the server refuse another version, where it can."""
    if etag.startswith(MTIME_PREFIX):
        seconds = float(etag.removeprefix(MTIME_PREFIX).split("-")[0])
        return {"if_unmodified_since": datetime.datetime.fromtimestamp(seconds, datetime.UTC)}
    return {} if etag.startswith("W/") else {"if_match": f'"{etag}"'}
