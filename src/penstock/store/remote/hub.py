"""Datasets and buckets on the Hugging Face Hub. Knows the hub's API; not what the files hold.

``huggingface_hub`` is not in a bare installation, and asks the hub, which limits requests, once per range; here the
signed URL of a file serves all its ranges.
"""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from penstock.runtime.forking import reset_in_children
from penstock.runtime.job import once_per_job
from penstock.store.remote import web
from penstock.store.remote.budget import RequestBudget
from penstock.store.remote.hublisting import list_once, list_pages, to_infos
from penstock.store.remote.listed import ListedObjects
from penstock.store.remote.options import StoreOptions, check_endpoint
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, ObjectMissing, StoreError
from penstock.store.remote.retry import MOST_ASKED_SECONDS, Failure, FailureKind, Retrier
from penstock.store.remote.urls import HubLocation

COMMIT = re.compile(r"[0-9a-f]{40}")
CONTENT_HEADER = "x-xet-hash"  # identifies the content of a bucket's file
MAX_REDIRECTS = 5

_given_tokens: dict[str, str] = {}  # by repository


class HubRemote(ABC):
    """A repository on the hub, listed once. Worker processes receive the listing."""

    def __init__(
        self, at: HubLocation, options: StoreOptions, files: Mapping[str, ObjectInfo] | None = None, token: str = ""
    ) -> None:
        self._at = at
        self._own_token = token or _given_tokens.get(at.repo, "")
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise StoreError(
                f"{self.url}: HF_HUB_OFFLINE is set, so no request is sent to the hub; use the path of a local copy"
            )
        self._options = options
        self._hub = (options.endpoint or os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        check_endpoint(self._hub, "HF_ENDPOINT")  # that of the options was checked already
        self._files: Mapping[str, ObjectInfo] = files or {}
        # Signed URLs that the hub redirects to, by URL. A signature expires; the hub then gives a new one.
        self._signed: dict[str, str] = {}
        rate = options.requests_per_second
        self._budget = RequestBudget(f"hf {self._hub}", rate) if rate else None
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Make a new retrier: a lock in the inherited one may be held by a thread that does not exist here."""
        self._retrier = Retrier(self._options.retry_seconds)

    @property
    def url(self) -> str:
        """The URL, with the revision as it was given."""
        return self._at.url

    @property
    def retries(self) -> int:
        return self._retrier.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def head(self, key: str) -> ObjectInfo:
        info = self._all().get(key)
        if info is None:
            raise ObjectMissing(f"{self.url}/{key}: no such file {self._container()}")
        return info

    def list(self, prefix: str = "") -> Iterator[tuple[str, ObjectInfo]]:
        folder = prefix.strip("/")
        for key, info in self._all().items():
            if not folder or key.startswith(folder + "/"):
                yield key, info

    def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
        info = self.head(key)
        if info.etag != etag:
            raise ObjectChanged(f"{self.url}/{key}: version {etag} requested, but at this commit it is {info.etag}")
        if end > info.size:
            raise ValueError(f"{self.url}/{key}: bytes up to {end} requested, but it has {info.size}")
        if start >= end:
            return memoryview(b"")
        path = f"{self._at.prefix}/{key}" if self._at.prefix else key
        headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        answer = self._get(self._address(path), headers, key)
        if len(answer.body) != end - start or (answer.status != 206 and end - start != info.size):
            raise ObjectChanged(
                f"{self.url}/{key}: {end - start} bytes were requested and {len(answer.body)} received "
                f"(HTTP {answer.status}); the file has changed, or the server does not support range requests"
            )
        return memoryview(answer.body)

    def _all(self) -> Mapping[str, ObjectInfo]:
        if not self._files:
            self._files = ListedObjects(self._list())
        return self._files

    @abstractmethod
    def _list(self) -> dict[str, ObjectInfo]:
        """Ask the hub for all files below the prefix."""

    @abstractmethod
    def _address(self, path: str) -> str:
        """Return the URL of a file."""

    @abstractmethod
    def _container(self) -> str:
        """Return where files were looked for, for messages."""

    def _get(self, url: str, headers: dict[str, str] | None = None, key: str = "") -> web.Answer:
        name = f"{self.url}/{key}" if key else self.url
        return self._retrier.run(name, lambda: self._follow(url, headers or {}), self._explain)

    def _follow(self, url: str, headers: dict[str, str]) -> web.Answer:
        """Follow redirects and return the answer. The token is only sent to the hub."""
        at = self._signed.get(url, url)
        for _ in range(MAX_REDIRECTS):
            at_hub = web.same_host(at, self._hub)
            if self._budget and at_hub:
                self._budget.take()
            try:
                answer = web.get(at, headers | (self._token() if at_hub else {}), self._options.timeout_seconds)
            except web.Refused as refused:
                if at_hub or refused.answer.status not in (400, 401, 403, 410):
                    raise
                self._signed.pop(url, None)
                at = url  # the signature has expired: the hub gives a new one
                continue
            if not answer.redirect:
                if at != url:
                    self._signed[url] = at
                return answer
            at = answer.redirect
        raise RuntimeError(f"more than {MAX_REDIRECTS} redirects")

    def _token(self) -> dict[str, str]:
        token = "" if self._options.anonymous else self._own_token or hub_token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _explain(self, error: Exception) -> Failure:
        failure = web.explain(error)
        if failure.wait and self._budget:
            # Limited: the pause is on disk and applies to every process of the node, also later ones.
            self._budget.pause(min(failure.wait, MOST_ASKED_SECONDS))
        if failure.kind is FailureKind.DENIED:
            said = "the token has no access to it" if self._token() else "no token was found: set HF_TOKEN"
            return Failure(
                FailureKind.DENIED, f"{failure.cause}; the dataset is private, gated or does not exist: {said}"
            )
        return failure


class DatasetRemote(HubRemote):
    """A dataset at one commit, which is resolved once. Worker processes receive the commit."""

    def __init__(
        self,
        at: HubLocation,
        options: StoreOptions,
        files: Mapping[str, ObjectInfo] | None = None,
        token: str = "",
        commit: str = "",
    ) -> None:
        super().__init__(at, options, files, token)
        self._commit = commit or (at.revision if COMMIT.fullmatch(at.revision) else "")

    def __reduce__(self) -> tuple[type["DatasetRemote"], tuple[object, ...]]:
        return type(self), (self._at, self._options, self._files, self._own_token, self._commit)

    def resolve_commit(self) -> str:
        """Return the commit that is read. The first call asks the hub, unless the revision is a commit."""
        if not self._commit:
            url = f"{self._hub}/api/datasets/{self._at.repo}/revision/{quote(self._at.revision, safe='')}"
            answer = once_per_job(url, lambda: self._get(url).body)
            self._commit = str(json.loads(answer)["sha"])
        return self._commit

    def resolve_url(self) -> str:
        """Return the URL with the commit as its revision: it always names the same files."""
        return replace(self._at, revision=self.resolve_commit()).url

    def _list(self) -> dict[str, ObjectInfo]:
        tree = f"{self._hub}/api/datasets/{self._at.repo}/tree/{self.resolve_commit()}/{quote(self._at.prefix)}"
        return list_once(f"{tree.rstrip('/')}?recursive=true", self._at.prefix, self._get)

    def _address(self, path: str) -> str:
        return f"{self._hub}/datasets/{self._at.repo}/resolve/{self.resolve_commit()}/{quote(path)}"

    def _container(self) -> str:
        return f"in the dataset at commit {self.resolve_commit()}"


class BucketRemote(HubRemote):
    """A bucket. It has no commits: a file that was replaced since the listing is an error."""

    def __reduce__(self) -> tuple[type["BucketRemote"], tuple[object, ...]]:
        return type(self), (self._at, self._options, self._files, self._own_token)

    def _list(self) -> dict[str, ObjectInfo]:
        prefix = f"/{quote(self._at.prefix, safe='')}" if self._at.prefix else ""
        tree = f"{self._hub}/api/buckets/{self._at.repo}/tree{prefix}?recursive=true"
        return to_infos(list_pages(tree, self._at.prefix, self._get))

    def _address(self, path: str) -> str:
        return f"{self._hub}/buckets/{self._at.repo}/resolve/{quote(path, safe='')}"

    def _container(self) -> str:
        return "in the bucket"

    def _get(self, url: str, headers: dict[str, str] | None = None, key: str = "") -> web.Answer:
        answer = super()._get(url, headers, key)
        version = answer.headers.get(CONTENT_HEADER)
        if key and version and version != self.head(key).etag:
            raise ObjectChanged(f"{self.url}/{key}: was replaced since the bucket was listed; start the run again")
        return answer


def give_token(repo: str, token: str) -> None:
    """Set the token of one repository for clients that are opened from now on. It is pickled with them."""
    _given_tokens[repo] = token


def hub_token() -> str:
    """Return the user's token from the places that the hub's own tools search; empty if there is none."""
    given = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    if given:
        return given.strip()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    path = Path(os.environ.get("HF_TOKEN_PATH") or Path(home) / "token").expanduser()
    return path.read_text().strip() if path.is_file() else ""
