import pytest

from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.redirects import stay_at_host
from penstock.store.remote.remote import StoreError
from tests.servers.web import Web

FILES = {"/bucket/x": (b"bytes", '"v1"')}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hunter2")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")


def test_a_redirected_request_never_reaches_the_other_host() -> None:
    with Web(FILES, host="127.0.0.2") as other, Web(FILES, location=other.url) as store:
        with pytest.raises(StoreError, match=r"s3://bucket/x: the store redirects to another host.*endpoint"):
            open_remote("s3://bucket", StoreOptions(endpoint=store.url)).head("x")
        assert other.asked == []
        ((_, _, headers),) = store.asked
        assert headers["x-amz-security-token"] == "hunter2"


def test_a_redirect_to_another_path_of_the_host_is_followed() -> None:
    with Web(FILES) as other, Web(FILES, location=other.url) as store:
        assert open_remote("s3://bucket", StoreOptions(endpoint=store.url)).head("x").size == 5


def test_the_clouds_own_hosts_and_those_that_give_keys_are_reached_without_an_endpoint() -> None:
    environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://localhost:51679/v1/keys"}
    hosts = stay_at_host("", "eu-west-1", environ)["proxy_excludes"].split(",")
    assert {"s3.eu-west-1.amazonaws.com", "sts.eu-west-1.amazonaws.com", "169.254.0.0/16", "localhost"} <= set(hosts)


def test_a_proxy_of_the_environment_stays_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert stay_at_host("", "eu-west-1", {}) == {}
