"""Datasets on the Hugging Face Hub, pinned to one commit. Knows the hub's API; not what the files hold."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from penstock.runtime.forking import reset_in_children
from penstock.store.remote import web
from penstock.store.remote.budget import RequestBudget
from penstock.store.remote.hublisting import listing
from penstock.store.remote.options import StoreOptions, check_endpoint
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, ObjectMissing, StoreError
from penstock.store.remote.retry import MOST_ASKED_SECONDS, Failure, Kind, Retrier
from penstock.store.remote.urls import SecretInUrl

OWN_REF = re.compile(r"refs/(?:convert|pr)/[^/]+")
# A revision ends at the next slash, but for the hub's own refs, which hold two.
URL = re.compile(rf"hf://datasets/([^/@]+/[^/@]+)(?:@({OWN_REF.pattern}|[^/]+))?(?:/(.*))?")
# A query anywhere, or a name with an @ before the dataset's own, where only its revision may follow one.
SECRET = re.compile(r".*[?#]|hf://(?:[^/]*/)?[^/]*@", re.DOTALL)
COMMIT = re.compile(r"[0-9a-f]{40}")
MOST_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class HubLocation:
    """A dataset's folder. ``revision`` is a branch, a tag, a ref or a commit."""

    repo: str
    revision: str
    prefix: str


def parse_hub_url(url: str) -> HubLocation:
    if SECRET.match(url):
        raise SecretInUrl("hf")
    found = URL.fullmatch(url)
    if not found:
        raise ValueError(f"{url!r}: expected hf://datasets/ORG/NAME@REVISION/FOLDER, with revision and folder optional")
    return HubLocation(found[1], unquote(found[2] or "main"), (found[3] or "").strip("/"))


_given_tokens: dict[str, str] = {}  # by repository


class HubRemote:
    """One dataset at one commit. It is resolved and listed once; worker processes get the commit and the list."""

    def __init__(
        self,
        url: str,
        options: StoreOptions,
        commit: str = "",
        files: Mapping[str, ObjectInfo] | None = None,
        token: str = "",
    ) -> None:
        self._at = self._parse(url)
        self._own_token = token or _given_tokens.get(self._at.repo, "")
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise StoreError(f"{url}: HF_HUB_OFFLINE is set, so the hub is not asked; name the folder of a copy")
        self._options = options
        self._hub = (options.endpoint or os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        check_endpoint(self._hub, "HF_ENDPOINT")  # that of the options was checked already
        self._commit = commit or (self._at.revision if COMMIT.fullmatch(self._at.revision) else "")
        self._files = dict(files or {})
        # The URL that the hub redirects to for a file. It is signed for a limited time; then the hub is asked again.
        self._signed: dict[str, str] = {}
        rate = options.requests_per_second
        self._budget = RequestBudget(f"hf {self._hub}", rate) if rate else None
        self.reset_after_fork()
        reset_in_children(self)

    @staticmethod
    def _parse(url: str) -> HubLocation:
        return parse_hub_url(url)

    def reset_after_fork(self) -> None:
        """Make a new retrier: a lock in the inherited one may be held by a thread that does not exist here."""
        self._retrier = Retrier(self._options.retry_seconds)

    @property
    def url(self) -> str:
        """The URL, with the revision as it was given; ``commit`` is what it resolved to."""
        at = self._at
        revision = at.revision if OWN_REF.fullmatch(at.revision) else quote(at.revision, safe="")
        return f"hf://datasets/{at.repo}@{revision}" + (f"/{at.prefix}" if at.prefix else "")

    @property
    def commit(self) -> str:
        """The commit that is read."""
        if not self._commit:
            answer = self._get(f"{self._hub}/api/datasets/{self._at.repo}/revision/{quote(self._at.revision, safe='')}")
            self._commit = str(json.loads(answer.body)["sha"])
        return self._commit

    @property
    def pinned_url(self) -> str:
        """The URL with the commit as its revision: it names the same files for ever."""
        return f"hf://datasets/{self._at.repo}@{self.commit}" + (f"/{self._at.prefix}" if self._at.prefix else "")

    @property
    def _whereabouts(self) -> str:
        return f"in the dataset at commit {self.commit}"

    @property
    def retries(self) -> int:
        return self._retrier.count

    def __reduce__(self) -> tuple[type["HubRemote"], tuple[Any, ...]]:
        return type(self), (self.url, self._options, self._commit, self._files, self._own_token)

    def __repr__(self) -> str:
        return f"HubRemote({self.url!r})"

    def head(self, key: str) -> ObjectInfo:
        info = self._all().get(key)
        if info is None:
            raise ObjectMissing(f"{self.url}/{key}: no such file {self._whereabouts}")
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

    def _all(self) -> dict[str, ObjectInfo]:
        if not self._files:
            self._files = self._list()
        return self._files

    def _list(self) -> dict[str, ObjectInfo]:
        tree = f"{self._hub}/api/datasets/{self._at.repo}/tree/{self.commit}/{quote(self._at.prefix)}".rstrip("/")
        return listing(f"{tree}?recursive=true", self._at.prefix, self._get)

    def _address(self, path: str) -> str:
        """Return the URL of a file."""
        return f"{self._hub}/datasets/{self._at.repo}/resolve/{self.commit}/{quote(path)}"

    def _get(self, url: str, headers: dict[str, str] | None = None, key: str = "") -> web.Answer:
        name = f"{self.url}/{key}" if key else self.url
        return self._retrier.run(name, lambda: self._follow(url, headers or {}), self._explain)

    def _follow(self, url: str, headers: dict[str, str]) -> web.Answer:
        """Follow redirects and return the answer. The token is only sent to the hub."""
        at = self._signed.get(url, url)
        for _ in range(MOST_REDIRECTS):
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
        raise RuntimeError(f"more than {MOST_REDIRECTS} redirects")

    def _token(self) -> dict[str, str]:
        token = "" if self._options.anonymous else self._own_token or hub_token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _explain(self, error: Exception) -> Failure:
        failure = web.explain(error)
        if failure.wait and self._budget:
            # Limited: the pause is on disk and applies to every process of the node, also later ones.
            self._budget.pause(min(failure.wait, MOST_ASKED_SECONDS))
        if failure.kind is Kind.DENIED:
            said = "the token has no access to it" if self._token() else "no token was found: set HF_TOKEN"
            return Failure(Kind.DENIED, f"{failure.cause}; the dataset is private, gated or does not exist: {said}")
        return failure


def give_token(repo: str, token: str) -> None:
    """Use a token for one repository: by clients that this process opens from now on, also where they are sent to."""
    _given_tokens[repo] = token


def hub_token() -> str:
    """Return the user's token from the places where the hub's own tools look for it; empty if there is none."""
    given = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    if given:
        return given.strip()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    path = Path(os.environ.get("HF_TOKEN_PATH") or Path(home) / "token").expanduser()
    return path.read_text().strip() if path.is_file() else ""
