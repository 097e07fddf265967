import pickle
from pathlib import Path

import pytest

from penstock.store.remote.folder import FolderRemote
from penstock.store.remote.hub import HubRemote
from penstock.store.remote.objects import ObjectRemote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, ObjectMissing
from penstock.store.remote.urls import Location, local_path, open_remote, parse_url


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://bucket", Location("s3", "bucket", "")),
        ("s3://bucket/", Location("s3", "bucket", "")),
        ("s3://bucket/a/b/", Location("s3", "bucket", "a/b")),
        ("r2://account/bucket/a", Location("r2", "bucket", "a", account="account")),
        ("gs://bucket/a", Location("gs", "bucket", "a")),
        ("az://container/a", Location("az", "container", "a")),
        ("s3://bucket/a b#c?d%20e", Location("s3", "bucket", "a b#c?d%20e")),
        ("https://host/a%20b", Location("https", "host", "a b")),
        ("https://host:8443/a/b", Location("https", "host:8443", "a/b")),
    ],
)
def test_a_url_is_taken_apart_and_put_together_again(url: str, location: Location) -> None:
    assert parse_url(url) == location
    assert location.url == url.rstrip("/")
    assert parse_url(location.url) == location


@pytest.mark.parametrize("url", ["ftp://host/x", "s3://", "s3:///x", "r2://account", "r2://account/", "://x"])
def test_what_is_no_store_is_told_what_was_expected(url: str) -> None:
    with pytest.raises(ValueError, match="expected s3://bucket"):
        parse_url(url)


@pytest.mark.parametrize("url", ["https://me:hunter2@host/x", "s3://key:hunter2@bucket/x", "https://h/x?sig=hunter2"])
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="put secrets into the environment") as caught:
        parse_url(url)
    assert "hunter2" not in str(caught.value)


def test_a_secret_in_an_endpoint_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="put secrets into the environment") as caught:
        StoreOptions(endpoint="https://me:hunter2@host")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["minio:9000", "minio", "http://", "http:/x", "http://h:99999", "http://[::1", "a b"]
)
def test_an_endpoint_that_is_no_web_address_is_told_how_to_write_it(endpoint: str, monkeypatch, capfd) -> None:
    with pytest.raises(ValueError, match=r"^endpoint: .* is not a web address; write it as https://host"):
        StoreOptions(endpoint=endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(ValueError, match=r"^the endpoint of the environment .* is not a web address"):
        open_remote("s3://bucket").head("x")
    assert capfd.readouterr().err == ""


def test_an_endpoint_of_the_hub_that_is_no_web_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "mirror:8080")
    with pytest.raises(ValueError, match=r"^HF_ENDPOINT: 'mirror:8080' is not a web address"):
        open_remote("hf://datasets/org/name")


@pytest.mark.parametrize("url", ["s3://b c/x", "http://h:99999/x", "http://[::1/x", "s3://b\nc/x"])
def test_a_bucket_or_host_that_cannot_be_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="is no name of a bucket or host"):
        parse_url(url)


def test_a_region_that_cannot_be_is_named() -> None:
    with pytest.raises(ValueError, match=r"^region: 'eu west' is not a region"):
        StoreOptions(region="eu west")


def test_plain_paths_and_file_urls_are_local_and_nothing_else_is() -> None:
    assert local_path("/data/x") == Path("/data/x")
    assert local_path("data/x") == Path("data/x")
    assert local_path("file:///data/a%20b") == Path("/data/a b")
    assert local_path("s3://bucket/x") is None
    with pytest.raises(ValueError, match="three slashes"):
        local_path("file://data/x")


def test_the_url_decides_what_is_opened_and_nothing_is_asked_yet(tmp_path: Path) -> None:
    assert isinstance(open_remote(str(tmp_path)), FolderRemote)
    assert isinstance(open_remote(tmp_path.as_uri()), FolderRemote)
    assert isinstance(open_remote("hf://datasets/org/name"), HubRemote)
    for url in ("s3://bucket/x", "r2://account/bucket/x", "gs://bucket/x", "az://c/x", "https://host/x"):
        remote = open_remote(url)
        assert isinstance(remote, ObjectRemote)
        assert remote.url == url
        assert pickle.loads(pickle.dumps(remote)).url == url


def test_a_folder_reads_like_a_remote_store(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(b"12345")
    (tmp_path / "a").write_bytes(b"")
    remote = FolderRemote(tmp_path)
    info = remote.head("b/c")
    assert bytes(remote.get_range("b/c", 1, 4, info.etag)) == b"234"
    assert list(remote.list()) == [("a", remote.head("a")), ("b/c", ObjectInfo(5, info.etag))]
    assert list(remote.list("b")) == [("b/c", info)]
    (tmp_path / "b" / "c").write_bytes(b"123456")
    with pytest.raises(ObjectChanged, match="b/c: version"):
        remote.get_range("b/c", 1, 4, info.etag)
    for missing in (lambda: remote.head("nope"), lambda: list(remote.list("nope"))):
        with pytest.raises(ObjectMissing, match="nope: no such"):
            missing()
