import logging
import multiprocessing
import os
import pickle
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store.cache.cache import NodeCache
from penstock.store.remote.budget import DUE_TIME, shared_folder
from penstock.store.remote.hub import DatasetRemote
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import (
    AccessDenied,
    ObjectChanged,
    ObjectMissing,
    Remote,
    StoreError,
    StoreUnavailable,
)
from penstock.store.remote.retry import MOST_ASKED_SECONDS
from tests.servers.hub import COMMIT, Hub

FILES = {f"data/part-{i}.tar": os.urandom(5000 + i) for i in range(5)} | {
    "data/a b#c.json": b"{}",
    "README.md": b"# hello",
    "database/other.tar": b"not in the folder data",
}
SECRET = "hf_verysecrettoken"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub("org/name", dict(FILES)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"):
            monkeypatch.delenv(name, raising=False)
        yield server


def read(remote: Remote, key: str) -> bytes:
    info = remote.head(key)
    return bytes(remote.get_range(key, 0, info.size, info.etag))


def count_files(url: str) -> int:
    return len(list(open_remote(url).list()))


@pytest.mark.parametrize(
    "url",
    [
        f"hf://me:{SECRET}@datasets/org/name",
        f"hf://{SECRET}@huggingface.co/datasets/org/name",
        f"hf://datasets/{SECRET}@org/name",
        f"hf://datasets/org/name?token={SECRET}",
        f"hf://datasets/org/name@main/data?token={SECRET}",
        f"hf://datasets/org/name#{SECRET}",
        f"hf://org/name?token={SECRET}",
    ],
)
def test_a_url_with_a_secret_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="must not contain a user name, password or query") as refused:
        open_remote(url)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("revision", ["", "@main", "@feature%2Fx", "@refs/convert/parquet", f"@{COMMIT}"])
def test_a_url_survives_being_pickled_at_its_commit(hub: Hub, revision: str) -> None:
    remote = open_remote(f"hf://datasets/org/name{revision}/data", StoreOptions())
    assert isinstance(remote, DatasetRemote)
    assert remote.resolve_commit() == COMMIT
    assert remote.resolve_url() == f"hf://datasets/org/name@{COMMIT}/data"
    copy = pickle.loads(pickle.dumps(remote))
    asked = len(hub.asked)
    assert (copy.url, copy.resolve_commit()) == (remote.url, COMMIT)
    assert len(hub.asked) == asked


def test_all_pages_are_listed_under_the_folder_with_content_hashes(hub: Hub) -> None:
    remote = open_remote("hf://datasets/org/name@main/data/")
    found = dict(remote.list())
    assert sorted(found) == ["a b#c.json", *(f"part-{i}.tar" for i in range(5))]
    assert list(found) == sorted(found)
    assert found["part-3.tar"].size == 5003
    assert len(found["part-3.tar"].etag) == 64
    assert len(found["a b#c.json"].etag) == 40


def test_small_and_large_files_are_read_by_ranges_over_redirects(hub: Hub) -> None:
    remote = open_remote("hf://datasets/org/name/data")
    assert read(remote, "a b#c.json") == b"{}"
    etag = remote.head("part-1.tar").etag
    for start, end in [(0, 5001), (4000, 4500), (5000, 5001), (7, 7)]:
        assert bytes(remote.get_range("part-1.tar", start, end, etag)) == FILES["data/part-1.tar"][start:end]
    assert hub.count("/resolve/") == 2, "the signed address serves for further ranges"


def test_a_signature_that_has_run_out_is_renewed(hub: Hub) -> None:
    remote = open_remote("hf://datasets/org/name/data")
    assert read(remote, "part-0.tar") == FILES["data/part-0.tar"]
    hub.signature += 1
    assert read(remote, "part-0.tar") == FILES["data/part-0.tar"]


def test_a_job_lists_once_whatever_the_number_of_its_processes(hub: Hub) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(count_files, ["hf://datasets/org/name/data"] * 6, chunksize=1) == [6] * 6
    assert hub.count("/tree/") == 3, "three pages, once"


def test_listings_lie_where_the_users_node_cache_may_begin(hub: Hub, tmp_path: Path) -> None:
    assert count_files("hf://datasets/org/name/data") == 6
    NodeCache(tmp_path / "cache" / "penstock", 10**9).close()


def test_the_token_comes_from_the_environment_or_the_file_and_goes_to_the_hub_alone(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = SECRET
    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert read(open_remote("hf://datasets/org/name"), "data/part-2.tar") == FILES["data/part-2.tar"]
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text(SECRET + "\n")
    assert read(open_remote("hf://datasets/org/name"), "data/part-2.tar") == FILES["data/part-2.tar"]


@pytest.mark.parametrize(
    ("token", "said"), [("", "no token was found: set HF_TOKEN"), ("hf_another", "token has no access to it")]
)
def test_a_private_dataset_is_refused_at_once_without_showing_the_token(
    hub: Hub, token: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub.token = SECRET
    monkeypatch.setenv("HF_TOKEN", token)
    remote = open_remote("hf://datasets/org/name")
    with caplog.at_level(logging.DEBUG), pytest.raises(AccessDenied, match=said) as caught:
        remote.head("README.md")
    assert len(hub.asked) == 1
    for text in (str(caught.value), repr(remote), caplog.text):
        assert not token or token not in text


def test_a_missing_file_folder_or_revision_is_named_at_once(hub: Hub) -> None:
    with pytest.raises(ObjectMissing, match=rf"org/name@main/nope: no such file .* at commit {COMMIT}"):
        open_remote("hf://datasets/org/name").head("nope")
    with pytest.raises(ObjectMissing, match="org/name@v9"):
        open_remote("hf://datasets/org/name@v9").head("README.md")


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"Retry-After": "1"}, 1),
        ({"RateLimit": '"api";r=0;t=1'}, 1),
        ({"Retry-After": "not a date"}, 0),
        ({"Retry-After": "²"}, 0),
        ({}, 0),
    ],
)
def test_429_is_waited_out_for_as_long_as_the_hub_asks(hub: Hub, headers: dict[str, str], least: float) -> None:
    hub.refusals = [(429, headers), (503, {})]
    remote = open_remote("hf://datasets/org/name", StoreOptions(retry_seconds=0.9))
    assert read(remote, "README.md") == b"# hello"
    assert remote.retries == 2
    assert hub.times[1] - hub.times[0] >= least


def test_no_wait_that_the_hub_asks_for_stops_the_node_for_longer_than_a_while(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    hub.refusals = [(429, {"Retry-After": "86400000"})]
    with pytest.raises(StoreUnavailable, match="HTTP 429"):
        open_remote("hf://datasets/org/name", StoreOptions(requests_per_second=100)).head("README.md")
    (budget,) = shared_folder().iterdir()
    (slot,) = DUE_TIME.unpack_from(budget.read_bytes())
    assert 0 < slot - time.monotonic() <= MOST_ASKED_SECONDS


def test_429_without_end_gives_up(hub: Hub) -> None:
    hub.refusals = [(429, {})] * 100
    with pytest.raises(StoreUnavailable, match=r"org/name@main: HTTP 429; gave up after \d tries"):
        open_remote("hf://datasets/org/name", StoreOptions(retry_seconds=0.5)).head("README.md")


def test_another_version_than_the_commits_is_refused(hub: Hub) -> None:
    with pytest.raises(ObjectChanged, match="version abc requested"):
        open_remote("hf://datasets/org/name").get_range("README.md", 0, 1, "abc")


def test_a_file_that_is_shorter_than_its_listing_is_refused(hub: Hub) -> None:
    remote = open_remote("hf://datasets/org/name")
    info = remote.head("data/part-4.tar")
    hub.files["data/part-4.tar"] = hub.files["data/part-4.tar"][:1500]
    with pytest.raises(StoreError, match="5004 bytes were requested and 1500 received"):
        remote.get_range("data/part-4.tar", 0, info.size, info.etag)
