from pathlib import Path

import pytest

from penstock.store.remote.awsprofile import AwsProfile, read_profile
from penstock.store.remote.clients import client_settings
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import parse_url

CREDENTIALS = """
[default]
aws_access_key_id = AKDEFAULT
aws_secret_access_key = default%secret
[team]
aws_access_key_id = AKTEAM
aws_secret_access_key = teamsecret
aws_session_token = teamtoken
"""
CONFIG = """
[default]
region = eu-west-1
[profile team]
region = ap-south-1
endpoint_url = https://objects.example
[profile away]
sso_session = corp
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    return {"HOME": str(tmp_path)}


def test_a_profile_is_read_from_both_files(home: dict[str, str]) -> None:
    assert read_profile(home) == AwsProfile("AKDEFAULT", "default%secret", region="eu-west-1")
    team = AwsProfile("AKTEAM", "teamsecret", "teamtoken", "ap-south-1", "https://objects.example")
    assert read_profile(home | {"AWS_PROFILE": "team"}) == team


def test_files_elsewhere_are_found_by_their_variables(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("[default]\naws_access_key_id = MINE\naws_secret_access_key = s\n")
    environ = {"HOME": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "mine")}
    assert read_profile(environ) == AwsProfile("MINE", "s")


def test_without_files_the_profile_is_empty(tmp_path: Path) -> None:
    assert read_profile({"HOME": str(tmp_path)}) == AwsProfile()


def test_a_profile_that_cannot_be_used_says_why(home: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"AWS profile 'none' .* neither in .*credentials nor in .*config"):
        read_profile(home | {"AWS_PROFILE": "none"})
    with pytest.raises(ValueError, match=r"gets its keys by sso_session.*aws configure export-credentials"):
        read_profile(home | {"AWS_PROFILE": "away"})


def test_a_broken_file_is_named_without_its_secrets(home: dict[str, str]) -> None:
    path = Path(home["HOME"]) / ".aws" / "credentials"
    path.write_text("aws_secret_access_key = hunter2\n")
    with pytest.raises(ValueError, match=r"credentials, line 1: not a readable AWS profile file") as caught:
        read_profile(home)
    assert "hunter2" not in repr(caught.value) + repr(caught.value.__context__)


def test_a_profiles_repr_shows_no_secret(home: dict[str, str]) -> None:
    assert "secret" not in repr(read_profile(home)).replace("secret_access_key", "")


def test_the_environments_keys_come_before_the_profiles(home: dict[str, str]) -> None:
    at = parse_url("s3://bucket")
    with_keys = home | {"AWS_ACCESS_KEY_ID": "AKENV", "AWS_SECRET_ACCESS_KEY": "s"}
    assert "access_key_id" not in client_settings(at, StoreOptions(), with_keys), "obstore reads the environment itself"
    assert client_settings(at, StoreOptions(), home)["access_key_id"] == "AKDEFAULT"
    assert client_settings(at, StoreOptions(anonymous=True), home) == {"skip_signature": "true"}


def test_options_come_before_the_environment_and_the_profile(home: dict[str, str]) -> None:
    at = parse_url("s3://bucket")
    team = home | {"AWS_PROFILE": "team"}
    assert client_settings(at, StoreOptions(), team)["endpoint"] == "https://objects.example"
    assert client_settings(at, StoreOptions(), team)["region"] == "ap-south-1"
    environ = team | {"AWS_ENDPOINT_URL": "http://env", "AWS_REGION": "env-1"}
    assert client_settings(at, StoreOptions(), environ)["endpoint"] == "http://env"
    assert client_settings(at, StoreOptions(), environ)["region"] == "env-1"
    own = client_settings(at, StoreOptions(endpoint="http://own", region="own-1"), environ)
    assert (own["endpoint"], own["region"]) == ("http://own", "own-1")


def test_r2_is_s3_at_the_accounts_own_address(home: dict[str, str]) -> None:
    found = client_settings(
        parse_url("r2://acc/bucket/x"), StoreOptions(), home | {"AWS_ENDPOINT_URL": "http://not-this"}
    )
    assert found["endpoint"] == "https://acc.r2.cloudflarestorage.com"
    assert found["region"] == "auto"
    assert found["access_key_id"] == "AKDEFAULT"


def test_a_profile_opens_the_bucket_for_real(s3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("x", b"bytes")
    server = s3.server
    (tmp_path / "credentials").write_text(
        f"[tests]\naws_access_key_id = {server.access_key}\naws_secret_access_key = {server.secret_key}\n"
    )
    (tmp_path / "config").write_text(f"[profile tests]\nregion = us-east-1\nendpoint_url = {server.url}\n")
    for name in server.environment():
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "tests")
    assert open_remote(s3.url).head("x").size == 5
