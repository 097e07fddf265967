import dataclasses
import logging
import os
import pickle
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import (
    AccessDenied,
    ObjectChanged,
    ObjectInfo,
    ObjectMissing,
    Remote,
    StoreError,
    StoreUnavailable,
)
from tests.servers.faultproxy import Rule
from tests.servers.web import Web

DATA = os.urandom(100_000)
PASSING = {
    "429": Rule("status", status=429, times=2),
    "500": Rule("status", status=500, times=2),
    "503": Rule("status", status=503, times=2),
    "reset": Rule("reset", times=2),
    "cut in the body": Rule("cut", after=70_000, times=2),
    "an answer too short": Rule("truncate", after=70_000, times=2),
}


def whole(remote: Remote, key: str) -> bytes:
    info = remote.head(key)
    return bytes(remote.get_range(key, 0, info.size, info.etag))


def test_ranges_of_an_object_are_its_bytes(s3) -> None:
    etag = s3.put("a/b c.bin", DATA)
    remote = s3.remote()
    assert remote.head("a/b c.bin") == ObjectInfo(len(DATA), etag)
    for start, end in [(0, 1), (0, len(DATA)), (99_999, 100_000), (17, 70_001), (5, 5)]:
        assert bytes(remote.get_range("a/b c.bin", start, end, etag)) == DATA[start:end]


@pytest.mark.parametrize("key", ["ä/日本.bin", "a+b&c=d.bin", "50%25.bin", "a~b#c?d.bin", "x" * 200])
def test_keys_of_any_letters_are_found_again(s3, key: str) -> None:
    s3.put(key, b"bytes")
    assert [found for found, _ in s3.remote().list()] == [key]
    assert whole(s3.remote(), key) == b"bytes"


@pytest.mark.parametrize("key", ["", "/a", "a//b", "a/../b", "./a", "a\0b"])
def test_what_is_no_key_is_refused_before_it_is_sent(s3, proxy, key: str) -> None:
    with pytest.raises(ValueError, match="is not a valid key"):
        s3.remote(proxy).head(key)
    assert proxy.log() == []


def test_a_remote_pickled_to_another_process_is_the_same_store(s3) -> None:
    s3.put("x", b"bytes")
    remote = s3.remote()
    whole(remote, "x")
    copy = pickle.loads(pickle.dumps(remote))
    assert copy.url == remote.url == s3.url
    assert whole(copy, "x") == b"bytes"


def test_another_version_is_never_read_not_even_between_two_ranges(s3) -> None:
    old = s3.put("x", b"old bytes")
    remote = s3.remote()
    assert bytes(remote.get_range("x", 0, 3, old)) == b"old"
    s3.put("x", b"new bytes")
    with pytest.raises(ObjectChanged, match=rf"{s3.url}/x: the object was replaced"):
        remote.get_range("x", 3, 9, old)


def test_a_range_beyond_the_end_is_no_short_read(s3) -> None:
    etag = s3.put("x", b"short")
    for start, end in [(0, 10), (20, 30)]:
        with pytest.raises(ObjectChanged, match=r"it has 5 now|shorter than was noted"):
            s3.remote().get_range("x", start, end, etag)


@pytest.mark.long
def test_listing_goes_through_all_pages_by_key_and_over_faults(s3, proxy) -> None:
    keys = [f"d/{i:04}" for i in range(1100)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda key: s3.put(key, key.encode()), keys))
    s3.put("elsewhere", b"")
    proxy.rules(Rule("status", probability=0.4), Rule("cut", after=500, probability=0.4), seed=1)
    remote = s3.remote(proxy)
    found = list(remote.list("d"))
    assert [key for key, _ in found] == keys
    assert {info.size for _, info in found} == {6}
    assert remote.retries > 0
    assert [key for key, _ in s3.remote().list()] == [*keys, "elsewhere"]


@pytest.mark.parametrize("rule", PASSING.values(), ids=PASSING)
def test_what_can_pass_is_tried_again_and_counted(s3, proxy, rule: Rule) -> None:
    etag = s3.put("x", DATA)
    proxy.rules(rule)
    remote = s3.remote(proxy)
    assert bytes(remote.get_range("x", 0, len(DATA), etag)) == DATA
    assert remote.retries == 2
    assert [r.fault for r in proxy.log("GET")] == [rule.fault, rule.fault, ""]


def test_silence_counts_as_a_failure_that_can_pass(s3, proxy) -> None:
    etag = s3.put("x", DATA)
    proxy.rules(Rule("delay", seconds=1.5, times=1))
    remote = open_remote(s3.url, dataclasses.replace(s3.through(proxy), timeout_seconds=0.5))
    assert bytes(remote.get_range("x", 0, 10, etag)) == DATA[:10]
    assert remote.retries == 1


def test_a_tenth_of_faults_changes_nothing_but_time(s3, proxy) -> None:
    etag = s3.put("x", DATA)
    proxy.rules(
        Rule("status", probability=0.05),
        Rule("reset", probability=0.03),
        Rule("cut", after=9, probability=0.03),
        seed=5,
    )
    remote = s3.remote(proxy)
    ranges = [(i * 331, i * 331 + 500) for i in range(300)]
    with ThreadPoolExecutor(8) as threads:
        read = list(threads.map(lambda r: bytes(remote.get_range("x", *r, etag)), ranges))
    assert read == [DATA[start:end] for start, end in ranges]
    assert remote.retries == sum(r.fault != "" for r in proxy.log("GET")) > 0


def test_threads_that_come_first_at_once_count_their_retries_together(s3, proxy) -> None:
    etag = s3.put("x", DATA)
    for _ in range(5):
        proxy.rules(Rule("status", times=8))
        remote, together = s3.remote(proxy), threading.Barrier(8)

        def read(start: int, remote: Remote = remote, together: threading.Barrier = together) -> None:
            together.wait()
            remote.get_range("x", start, start + 10, etag)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(read, range(8)))
        assert remote.retries == 8


def test_retries_end_with_an_error_that_names_url_cause_and_tries(s3, proxy) -> None:
    etag = s3.put("x", DATA)
    proxy.rules(Rule("status", status=503))
    remote = open_remote(s3.url, dataclasses.replace(s3.through(proxy), retry_seconds=0.5))
    with pytest.raises(StoreUnavailable, match=rf"{s3.url}/x: HTTP 503 SlowDown .*; gave up after \d+ tries in"):
        remote.get_range("x", 0, 10, etag)


def test_a_host_that_never_answers_is_named(s3) -> None:
    options = dataclasses.replace(s3.options, endpoint="http://127.0.0.1:1", retry_seconds=0.3)
    with pytest.raises(StoreUnavailable, match=rf"{s3.url}/x: connection refused"):
        open_remote(s3.url, options).head("x")


def test_what_is_not_there_is_an_error_at_once(s3, proxy) -> None:
    with pytest.raises(ObjectMissing, match=rf"{s3.url}/nope: no such object"):
        s3.remote(proxy).head("nope")
    with pytest.raises(ObjectMissing, match=r"s3://no-such-bucket/x: no such object or bucket"):
        open_remote("s3://no-such-bucket", s3.through(proxy)).head("x")
    with pytest.raises(ObjectMissing, match=r"s3://no-such-bucket: the bucket does not exist"):
        list(open_remote("s3://no-such-bucket", s3.through(proxy)).list())
    assert len(proxy.log()) == 3


def test_wrong_keys_are_refused_at_once_and_no_secret_is_shown(s3, proxy, monkeypatch, caplog) -> None:
    s3.put("x", DATA)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-value-that-is-wrong")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t0ken-value-that-is-wrong")
    remote = s3.remote(proxy)
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(AccessDenied, match=rf"{s3.url}/x: access denied: HTTP 403") as e,
    ):
        remote.get_range("x", 0, 1, "e")
    assert len(proxy.log()) == 1
    shown = [*traceback.format_exception(e.value), repr(remote), str(vars(remote)), caplog.text, remote.url]
    shown += [pickle.dumps(remote).decode("latin-1"), repr(e.value.__cause__), repr(e.value.__context__)]
    assert not any("value-that-is-wrong" in text for text in shown)


def test_without_credentials_a_signed_bucket_is_denied_and_the_error_says_what_to_set(s3, proxy) -> None:
    s3.put("x", DATA)
    with pytest.raises(AccessDenied, match="check the credentials"):
        open_remote(s3.url, dataclasses.replace(s3.through(proxy), anonymous=True)).head("x")


def test_many_threads_share_one_remote(s3) -> None:
    etag = s3.put("x", DATA)
    remote = s3.remote()
    wrong: list[int] = []

    def read(seed: int) -> None:
        for i in range(30):
            start = (seed * 7919 + i * 104_729) % (len(DATA) - 512)
            if bytes(remote.get_range("x", start, start + 512, etag)) != DATA[start : start + 512]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_budget_spaces_requests_as_the_server_sees_them(s3, proxy) -> None:
    s3.put("x", DATA)
    remote = open_remote(s3.url, dataclasses.replace(s3.through(proxy), requests_per_second=20))
    start = time.time()
    for _ in range(6):
        remote.head("x")
    # A request may come late, but never early (but for what separates two clocks).
    assert all(r.time >= start + i / 20 - 0.005 for i, r in enumerate(proxy.log("HEAD")))


@pytest.mark.parametrize("etag", ['"v1"', 'W/"v1"', ""])
def test_a_web_server_that_ignores_conditions_cannot_pass_another_version_on(etag: str) -> None:
    with Web({"/d e/x y": (DATA, etag)}) as web:
        remote = open_remote(web.url + "/d%20e/")
        info = remote.head("x y")
        assert info.size == len(DATA)
        assert bytes(remote.get_range("x y", 10, 20, info.etag)) == DATA[10:20]
        web.files["/d e/x y"] = (DATA[::-1] + b"x", etag.replace("1", "2"))
        with pytest.raises(ObjectChanged, match=f"version {info.etag} requested"):
            remote.get_range("x y", 10, 20, info.etag)


def test_a_web_server_that_tells_no_version_is_refused_before_a_byte_is_read(tmp_path: Path) -> None:
    with Web({"/x": (DATA, "")}, modified="") as web:
        with pytest.raises(StoreError, match=r"/x: the server sends neither ETag nor Last-Modified.*copy the data"):
            CachedStore(open_remote(web.url), NodeCache(tmp_path / "cache", 1 << 30)).open("x")
        assert [method for method, _, _ in web.asked] == ["HEAD"]


def test_a_web_server_without_ranges_or_listing_is_told_so() -> None:
    with Web({"/x": (DATA, '"v1"')}, ranges=False) as web:
        remote = open_remote(web.url)
        with pytest.raises(StoreError, match=r"/x: the server does not support range requests"):
            remote.get_range("x", 10, 20, remote.head("x").etag)
        with pytest.raises(StoreError, match="cannot be listed"):
            list(remote.list())


@pytest.mark.parametrize("url", ["gs://bucket/folder", "az://bucket/folder", "s3://bucket/folder"])
def test_every_cloud_is_asked_for_bucket_and_key_at_its_endpoint(url: str, monkeypatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "someone")
    with Web({"/bucket/folder/x": (DATA, '"v1"')}) as web:
        remote = open_remote(url, StoreOptions(endpoint=web.url, anonymous=True))
        assert remote.head("x") == ObjectInfo(len(DATA), "v1")
        assert bytes(remote.get_range("x", 10, 20, "v1")) == DATA[10:20]
        assert [(method, headers.get("if-match")) for method, _, headers in web.asked] == [
            ("HEAD", None),
            ("GET", '"v1"'),
        ]


def test_an_azure_container_without_an_account_says_what_to_set(monkeypatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StoreError, match=r"az://container: .* set AZURE_STORAGE_ACCOUNT_NAME"):
        open_remote("az://container").head("x")


def test_an_aws_profile_that_is_not_there_is_told_at_the_first_request(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with pytest.raises(ValueError, match="AWS profile 'nobody'"):
        open_remote("s3://bucket").head("x")


def test_a_signature_in_the_address_is_not_shown_when_azure_refuses(monkeypatch, caplog) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "someone")
    monkeypatch.setenv("AZURE_STORAGE_SAS_KEY", "sv=2023&sig=s3cr3tsignature")
    with Web({}) as web:
        remote = open_remote("az://bucket/folder", StoreOptions(endpoint=web.url, retry_seconds=0.3))
        for web.status, kind in [(403, AccessDenied), (404, ObjectMissing), (503, StoreUnavailable), (418, StoreError)]:
            with caplog.at_level(logging.DEBUG), pytest.raises(kind) as caught:
                remote.head("x")
            assert "s3cr3t" not in "".join(traceback.format_exception(caught.value)) + caplog.text
        assert any("s3cr3tsignature" in path for _, path, _ in web.asked), "it was sent, or this shows nothing"
