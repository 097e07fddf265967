"""Buckets on the Hugging Face Hub. They have no commits: a run sees the files as they were when it listed them."""

import re
from urllib.parse import quote

from penstock.store.remote import web
from penstock.store.remote.hub import SECRET, HubLocation, HubRemote
from penstock.store.remote.hublisting import as_files, ask
from penstock.store.remote.remote import ObjectChanged, ObjectInfo
from penstock.store.remote.urls import SecretInUrl

_URL = re.compile(r"hf://buckets/([^/@]+/[^/@]+)(?:/(.*))?")
_VERSION = "x-xet-hash"  # the header that names the content of a file


class BucketRemote(HubRemote):
    """One bucket. A file that was replaced since it was listed is an error."""

    @staticmethod
    def _parse(url: str) -> HubLocation:
        if SECRET.match(url):
            raise SecretInUrl("hf")
        found = _URL.fullmatch(url)
        if not found:
            raise ValueError(f"{url!r}: expected hf://buckets/ORG/NAME/FOLDER, with the folder optional")
        return HubLocation(found[1], "", (found[2] or "").strip("/"))

    @property
    def url(self) -> str:
        return f"hf://buckets/{self._at.repo}" + (f"/{self._at.prefix}" if self._at.prefix else "")

    @property
    def _whereabouts(self) -> str:
        return "in the bucket"

    def _list(self) -> dict[str, ObjectInfo]:
        prefix = f"/{quote(self._at.prefix, safe='')}" if self._at.prefix else ""
        tree = f"{self._hub}/api/buckets/{self._at.repo}/tree{prefix}?recursive=true"
        return as_files(ask(tree, self._at.prefix, self._get))

    def _address(self, path: str) -> str:
        return f"{self._hub}/buckets/{self._at.repo}/resolve/{quote(path, safe='')}"

    def _get(self, url: str, headers: dict[str, str] | None = None, key: str = "") -> web.Answer:
        answer = super()._get(url, headers, key)
        version = answer.headers.get(_VERSION)
        if key and version and version != self.head(key).etag:
            raise ObjectChanged(f"{self.url}/{key}: was replaced since the bucket was listed; start the run again")
        return answer
