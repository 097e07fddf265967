"""The proxy's own faults, seen by a plain client: what tests build on must itself hold."""

import http.client
import urllib.request

import pytest

from tests.servers.faultproxy import FaultProxy, Rule
from tests.servers.web import Web

DATA = bytes(range(256)) * 100


@pytest.fixture
def both():
    with Web({"/bucket/a b": (DATA, '"v"')}) as web, FaultProxy(web.url) as proxy:
        yield web, proxy


def get(proxy: FaultProxy, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(proxy.url + "/bucket/a%20b", headers=headers)) as answer:
        return answer.read()


def test_without_rules_everything_passes_unchanged_and_is_logged(both) -> None:
    web, proxy = both
    assert get(proxy) == DATA
    assert get(proxy, Range="bytes=5-9") == DATA[5:10]
    assert web.asked[0][2]["Host"] == proxy.url.removeprefix("http://"), "or SigV4 would not hold"
    first, second = proxy.log()
    assert (first.method, first.key, first.start, first.status, first.sent) == ("GET", "a b", -1, 200, len(DATA))
    assert (second.order, second.start, second.end, second.status, second.sent) == (1, 5, 10, 206, 5)


def test_each_fault_is_what_its_name_says(both) -> None:
    web, proxy = both
    proxy.rules(Rule("corrupt", after=3))
    damaged = get(proxy)
    assert [i for i in range(len(DATA)) if damaged[i] != DATA[i]] == [3]
    proxy.rules(Rule("truncate", after=10))
    assert get(proxy) == DATA[:10]
    proxy.rules(Rule("cut", after=10))
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        get(proxy)
    proxy.rules(Rule("reset"))
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        get(proxy)
    asked = len(web.asked)
    proxy.rules(Rule("status", status=429, retry_after="7"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(proxy)
    assert (refused.value.code, refused.value.headers["Retry-After"]) == (429, "7")
    assert len(web.asked) == asked, "it is answered without asking the server"
    assert [request.fault for request in proxy.log()] == ["corrupt", "truncate", "cut", "reset", "status"]


def test_rules_apply_to_what_they_name_as_often_as_they_say(both) -> None:
    _, proxy = both
    proxy.rules(Rule("truncate", ranged=True, times=1), Rule("truncate", key="other"), Rule("truncate", method="PUT"))
    assert get(proxy) == DATA
    assert get(proxy, Range="bytes=5-9") == b""
    assert get(proxy, Range="bytes=5-9") == DATA[5:10]


def test_draws_are_those_of_the_seed(both) -> None:
    _, proxy = both
    drawn = []
    for seed in (1, 1, 2):
        proxy.clear()
        proxy.rules(Rule("truncate", probability=0.5), seed=seed)
        drawn.append([len(get(proxy)) for _ in range(20)])
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {0, len(DATA)}
