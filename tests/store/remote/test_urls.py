from pathlib import Path

import pytest

from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import HubLocation, Location, SecretInUrl, local_path, parse_hub_url, parse_url


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
    with pytest.raises(ValueError, match="is not a valid bucket or host name"):
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


def test_urls_name_a_dataset_a_revision_and_a_folder() -> None:
    assert parse_hub_url("hf://datasets/org/name") == HubLocation("org/name", "main", "")
    assert parse_hub_url("hf://datasets/org/name@v1/data/x/") == HubLocation("org/name", "v1", "data/x")
    assert parse_hub_url("hf://datasets/o/n@feature%2Fx/d") == HubLocation("o/n", "feature/x", "d")
    assert parse_hub_url("hf://datasets/o/n@refs/convert/parquet/d") == HubLocation("o/n", "refs/convert/parquet", "d")
    for url in ("hf://org/name", "hf://datasets/name", "hf://spaces/o/n"):
        with pytest.raises(ValueError, match="expected hf://datasets/ORG/NAME"):
            parse_hub_url(url)


def test_urls_name_a_bucket_and_a_folder() -> None:
    assert parse_hub_url("hf://buckets/org/name/runs/a/") == HubLocation("org/name", "", "runs/a")
    with pytest.raises(ValueError, match="expected hf://buckets/ORG/NAME/FOLDER"):
        parse_hub_url("hf://buckets/org")
    with pytest.raises(SecretInUrl):
        parse_hub_url("hf://buckets/org/name?token=x")


@pytest.mark.parametrize(
    ("url", "normalised"),
    [
        ("hf://datasets/o/n", "hf://datasets/o/n@main"),
        ("hf://datasets/o/n@a%2Fb/d/", "hf://datasets/o/n@a%2Fb/d"),
        ("hf://datasets/o/n@refs/convert/parquet/d", "hf://datasets/o/n@refs/convert/parquet/d"),
        ("hf://buckets/o/n/d/", "hf://buckets/o/n/d"),
    ],
)
def test_a_url_of_the_hub_is_normalised(url: str, normalised: str) -> None:
    assert parse_hub_url(url).url == normalised
    assert parse_hub_url(parse_hub_url(url).url) == parse_hub_url(url)
