"""A file becomes an object: whole, in one request or in parts, and again where the store stumbled."""

import random
from pathlib import Path

import pytest

from penstock.store.remote.remote import AccessDenied
from tests.servers.faultproxy import Rule


@pytest.mark.parametrize("size", [0, 1, 70_000, 12 << 20])
def test_what_was_put_is_what_is_read(s3, tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    (tmp_path / "file").write_bytes(data)
    remote = s3.remote()
    remote.put("a/b.bin", tmp_path / "file")
    info = remote.head("a/b.bin")
    assert info.size == size
    assert bytes(remote.get_range("a/b.bin", 0, size, info.etag)) == data


def test_a_put_that_fails_in_passing_is_sent_again_and_replaces(s3, proxy, tmp_path: Path) -> None:
    s3.put("x", b"old")
    (tmp_path / "file").write_bytes(b"new" * 1000)
    proxy.rules(Rule("status", method="PUT", times=2))
    remote = s3.remote(via=proxy)
    remote.put("x", tmp_path / "file")
    assert remote.retries == 2
    assert bytes(remote.get_range("x", 0, 3000, remote.head("x").etag)) == b"new" * 1000


def test_who_may_not_write_is_told_at_once(s3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(AccessDenied, match=rf"{s3.url}/x: access denied"):
        s3.remote().put("x", tmp_path / "file")
