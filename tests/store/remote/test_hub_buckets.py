from collections.abc import Iterator

import pytest

from penstock.store.remote.hub import BucketRemote
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectChanged, ObjectMissing
from tests.servers.hub import Hub

FILES = {"runs/a/x.bin": bytes(range(256)) * 20, "runs/a/small": b"four", "other": b"1"}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub("org/name", dict(FILES)) as running:
        yield running


def opened(hub: Hub, url: str = "hf://buckets/org/name/runs/a") -> BucketRemote:
    remote = open_remote(url, StoreOptions(endpoint=hub.url, retry_seconds=2))
    assert isinstance(remote, BucketRemote)
    return remote


def test_a_bucket_is_listed_under_its_folder_and_read_by_ranges(hub: Hub) -> None:
    remote = opened(hub)
    listed = dict(remote.list())
    assert {key: info.size for key, info in listed.items()} == {"x.bin": 5120, "small": 4}
    assert bytes(remote.get_range("x.bin", 250, 260, listed["x.bin"].etag)) == FILES["runs/a/x.bin"][250:260]
    assert remote.url == "hf://buckets/org/name/runs/a"


def test_a_missing_file_is_named(hub: Hub) -> None:
    with pytest.raises(ObjectMissing, match="hf://buckets/org/name/runs/a/nothing: no such file in the bucket"):
        opened(hub).head("nothing")


def test_a_file_that_was_replaced_after_the_listing_is_an_error(hub: Hub) -> None:
    remote = opened(hub)
    etag = remote.head("x.bin").etag
    hub.files["runs/a/x.bin"] = bytes(5120)
    with pytest.raises(ObjectChanged, match="was replaced since the bucket was listed"):
        remote.get_range("x.bin", 0, 10, etag)
