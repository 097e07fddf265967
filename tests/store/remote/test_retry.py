import datetime
import logging
import urllib.error
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.remote import failures, retry, web
from penstock.store.remote.remote import AccessDenied, ObjectChanged, ObjectMissing, StoreError, StoreUnavailable
from penstock.store.remote.retry import FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS, Failure, FailureKind, Retrier, backoff


class Flaky:
    """A request that fails as it is told, and then succeeds."""

    def __init__(self, *failing: Failure) -> None:
        self.failing = list(failing)
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.failing:
            raise RuntimeError("https://host/x?signature=hunter2")
        return "done"

    def explain(self, _: Exception) -> Failure:
        return self.failing.pop(0)


@given(attempt=st.integers(1, 10_000), draw=st.floats(0, 1, exclude_max=True))
def test_waits_double_up_to_a_cap_and_are_spread_over_their_upper_half(attempt: int, draw: float) -> None:
    full = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (min(attempt, 60) - 1))
    assert full / 2 <= backoff(attempt, draw) < full or draw > 0.999999


def test_what_can_pass_is_tried_until_it_passes() -> None:
    flaky = Flaky(Failure(FailureKind.PASSING, "busy"), Failure(FailureKind.PASSING, "busy"))
    retrier = Retrier(10)
    assert retrier.run("s3://b/x", flaky, flaky.explain) == "done"
    assert (flaky.tries, retrier.count) == (3, 2)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (FailureKind.MISSING, ObjectMissing),
        (FailureKind.DENIED, AccessDenied),
        (FailureKind.CHANGED, ObjectChanged),
        (FailureKind.FINAL, StoreError),
    ],
)
def test_what_cannot_pass_is_raised_at_once_with_url_and_cause(kind: FailureKind, error: type[StoreError]) -> None:
    flaky = Flaky(Failure(kind, "because"))
    with pytest.raises(error, match="s3://b/x: because") as caught:
        Retrier(10).run("s3://b/x", flaky, flaky.explain)
    assert flaky.tries == 1
    assert caught.value.__context__ is None, "the store's own text may hold a signature"


@pytest.mark.parametrize(("loud_seconds", "level"), [(60.0, logging.INFO), (-1.0, logging.WARNING)])
def test_a_retry_is_logged_and_is_a_warning_once_it_has_cost_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, loud_seconds: float, level: int
) -> None:
    monkeypatch.setattr(retry, "LOUD_SECONDS", loud_seconds)
    caplog.set_level(logging.INFO, "penstock")
    flaky = Flaky(Failure(FailureKind.PASSING, "timed out"))
    assert Retrier(10).run("s3://b/x", flaky, flaky.explain) == "done"
    (record,) = caplog.records
    assert record.getMessage().startswith("s3://b/x: timed out after 0.0 s; retrying in 0.")
    assert (record.name, record.levelno) == ("penstock.store.remote.retry", level)


def test_patience_ends() -> None:
    flaky = Flaky(*[Failure(FailureKind.PASSING, "busy")] * 100)
    with pytest.raises(StoreUnavailable, match=r"s3://b/x: busy; gave up after \d tries in 0\.\d s"):
        Retrier(0.4).run("s3://b/x", flaky, flaky.explain)


def test_a_host_that_has_never_answered_is_given_up_sooner() -> None:
    refused = Failure(FailureKind.PASSING, "connection refused", unreached=True)
    stranger, known = Retrier(600, stranger_seconds=0.2), Retrier(600, stranger_seconds=0.2)
    flaky = Flaky(*[refused] * 100)
    with pytest.raises(StoreUnavailable, match="connection refused; gave up"):
        stranger.run("s3://b/x", flaky, flaky.explain)
    assert known.run("s3://b/x", Flaky(), flaky.explain) == "done"
    again = Flaky(*[refused] * 4)
    assert known.run("s3://b/x", again, again.explain) == "done"


def test_a_wait_that_the_server_asks_for_comes_on_top_of_our_patience() -> None:
    flaky = Flaky(Failure(FailureKind.PASSING, "busy", wait=0.3))
    assert Retrier(0.1).run("s3://b/x", flaky, flaky.explain) == "done"
    too_long = Flaky(Failure(FailureKind.PASSING, "busy", wait=100_000))
    with pytest.raises(StoreUnavailable, match="gave up after 1 tries"):
        Retrier(0.1).run("s3://b/x", too_long, too_long.explain)


def store_error(name: str, text: str) -> Exception:
    return type(name, (Exception,), {})(text)


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        (
            "non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>",
            FailureKind.PASSING,
            "HTTP 503 SlowDown",
        ),
        ("non-2xx status code: 429 Too Many Requests: ", FailureKind.PASSING, "HTTP 429"),
        ("non-2xx status code: 400 Bad: <Code>RequestTimeout</Code>", FailureKind.PASSING, "HTTP 400 RequestTimeout"),
        ("non-2xx status code: 400 Bad: <Code>ExpiredToken</Code>", FailureKind.DENIED, "ExpiredToken"),
        ("non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>", FailureKind.DENIED, "check the credentials"),
        (
            "non-2xx status code: 404 Not Found: <Code>NoSuchBucket</Code>",
            FailureKind.MISSING,
            "the bucket does not exist",
        ),
        ("non-2xx status code: 404 Not Found: ", FailureKind.MISSING, "no such object or bucket"),
        ("non-2xx status code: 412 Precondition Failed: ", FailureKind.CHANGED, "replaced"),
        ("non-2xx status code: 416 Range: ", FailureKind.CHANGED, "shorter"),
        ("non-2xx status code: 501 Not Implemented: ", FailureKind.FINAL, "HTTP 501"),
        ("HttpError { kind: Timeout, source: reqwest }", FailureKind.PASSING, "timed out"),
        (
            'HttpError { kind: Interrupted, message: "Connection reset by peer" }',
            FailureKind.PASSING,
            "connection reset",
        ),
        ("HttpError { kind: Connect, invalid peer certificate: UnknownIssuer }", FailureKind.FINAL, "TLS certificate"),
        ('kind: Connect, source: ConnectError("dns error", Custom)', FailureKind.PASSING, "host name was not found"),
        (
            "Error performing PUT http://169.254.169.254/latest/api/token",
            FailureKind.PASSING,
            "no credentials were found",
        ),
        ("Received redirect without LOCATION, this normally indicates", FailureKind.FINAL, "another region"),
        ("something new: https://u:hunter2@h/x?sig=hunter2", FailureKind.FINAL, "something new: https://h/x"),
    ],
)
def test_every_cause_is_told_apart_and_put_in_words(text: str, kind: FailureKind, cause: str) -> None:
    failure = failures.explain(store_error("GenericError", text))
    assert failure.kind is kind
    assert cause in failure.cause
    assert "hunter2" not in failure.cause


def test_only_a_host_that_was_not_reached_is_a_stranger() -> None:
    assert failures.explain(store_error("GenericError", "kind: Connect, source")).unreached
    assert not failures.explain(store_error("GenericError", "kind: Interrupted, source")).unreached
    assert web.explain(urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))).unreached


def test_waits_are_read_as_seconds_dates_and_resets() -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert web.asked_wait({"retry-after": "17"}, now) == 17
    later = format_datetime(now + datetime.timedelta(seconds=90), usegmt=True)
    assert web.asked_wait({"retry-after": later}, now) == 90
    earlier = format_datetime(now - datetime.timedelta(seconds=90), usegmt=True)
    assert web.asked_wait({"retry-after": earlier}, now) == 0
    assert web.asked_wait({"ratelimit": '"api";r=0;t=55'}, now) == 55
    assert web.asked_wait({"ratelimit": '"api";r=3;t=55'}, now) == 0
    assert web.asked_wait({"retry-after": "soon"}, now) == 0
    assert web.asked_wait({}, now) == 0
