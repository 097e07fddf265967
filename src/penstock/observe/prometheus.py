"""The metrics of a process for Prometheus, over HTTP. Knows the names; knows nothing of how batches are counted."""

import logging
import socket
import threading
import weakref
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from penstock.feed.meter import WAIT_BOUNDS_SECONDS, Meter
from penstock.observe.figures import NodeCacheFigures, cache_counts
from penstock.recipes.extras import require_packages
from penstock.runtime.forking import reset_in_children

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric

log = logging.getLogger(__name__)

_CACHE_COUNTERS = {
    "hits": ("penstock_cache_hits", "Reads of which all bytes were in the node cache."),
    "misses": ("penstock_cache_misses", "Reads that downloaded, or waited for a download."),
    "bytes_read": ("penstock_cache_read_bytes", "Bytes that were read through the node cache."),
    "bytes_fetched": ("penstock_cache_downloaded_bytes", "Bytes that were downloaded into the node cache."),
    "requests": ("penstock_cache_requests", "Requests to remote stores."),
    "retries": ("penstock_cache_retries", "Requests to remote stores that were repeated."),
    "bytes_evicted": ("penstock_cache_evicted_bytes", "Bytes that were removed from the node cache."),
}


class MeteredFeed(NodeCacheFigures, Protocol):
    """The part of a feed that metrics are about."""

    meter: Meter

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...


class MetricsServer:
    """Serves the metrics of a feed until it is closed or collected. A port that is in use only costs a warning.

    Args:
        feed: Feed of this process.
        host: Address to listen on.
        port: Port to listen on.

    Raises:
        ConfigError: If prometheus_client is not installed.
    """

    def __init__(self, feed: MeteredFeed, host: str, port: int) -> None:
        require_packages("metrics:", "metrics", "prometheus_client")
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(_Metrics(feed))
        self._server: WSGIServer | None = None
        try:
            self._server, _ = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            log.warning("no metrics of rank %d on %s:%d: %s", feed.rank, host, port, error)
            return
        self._end = weakref.finalize(feed, _shut_down, self._server)
        self._end.atexit = False  # the thread ends with the process
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Close the socket in a forked child: the parent serves."""
        if self._server is not None:
            self._end.detach()
            self._server.socket.close()
            self._server = None

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._end()
            self._server = None


def _shut_down(server: "WSGIServer") -> None:
    server.socket.shutdown(socket.SHUT_RDWR)  # frees the port at once
    # In a thread of its own: the server may take half a second to stop, and this may be its thread.
    threading.Thread(target=_stop, args=(server,), name="penstock-metrics-end", daemon=True).start()


def _stop(server: "WSGIServer") -> None:
    server.shutdown()
    server.server_close()


class _Metrics:
    """Makes the metrics when they are requested. Holds the feed weakly, so that it can be collected."""

    def __init__(self, feed: MeteredFeed) -> None:
        self._feed = weakref.ref(feed)

    def describe(self) -> Sequence["Metric"]:
        return ()

    def collect(self) -> Iterator["Metric"]:
        feed = self._feed()
        if feed is None:
            return
        yield from _of_rank(feed)
        yield from _of_node(feed)


def _of_rank(feed: MeteredFeed) -> Iterator["Metric"]:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        InfoMetricFamily,
    )

    totals = feed.meter.totals()
    rank = str(feed.rank)
    yield InfoMetricFamily("penstock_run", "Rank and number of ranks.", {"rank": rank, "world": str(feed.world)})
    step = GaugeMetricFamily("penstock_next_step", "Step after the last one that was received.", labels=["rank"])
    step.add_metric([rank], totals.next_step)
    yield step
    if totals.steps:
        text = "Time of the last batch, since 1970."
        last = GaugeMetricFamily("penstock_last_batch_timestamp_seconds", text, labels=["rank"], unit="seconds")
        last.add_metric([rank], totals.time)
        yield last
    samples = CounterMetricFamily("penstock_samples", "Samples used, per source.", labels=["rank", "source"])
    for name, count in totals.samples.items():
        samples.add_metric([rank, name.encode(errors="replace").decode()], count)  # a name may not be UTF-8
    yield samples
    bad = CounterMetricFamily("penstock_bad_samples", "Samples that could not be used.", labels=["rank", "outcome"])
    for outcome, count in {"replaced": 0, **totals.bad}.items():
        bad.add_metric([rank, outcome], count)
    yield bad
    text = "Time that the trainer waited, per step."
    waits = HistogramMetricFamily("penstock_wait_seconds", text, labels=["rank"], unit="seconds")
    bounds = [*map(str, WAIT_BOUNDS_SECONDS), "+Inf"]
    waits.add_metric([rank], list(zip(bounds, accumulate(totals.waits), strict=True)), totals.waited)
    yield waits


def _of_node(feed: MeteredFeed) -> Iterator["Metric"]:
    """Yield the metrics of the node cache, which all ranks of a node share."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    counts = cache_counts(feed)
    for key, (name, text) in _CACHE_COUNTERS.items():
        if key in counts:
            unit = "bytes" if name.endswith("_bytes") else ""
            yield CounterMetricFamily(name, text, counts[key], unit=unit)
    if "waited_ns" in counts:
        text = "Time that reads waited for data, over all threads."
        yield CounterMetricFamily("penstock_cache_wait_seconds", text, counts["waited_ns"] / 1e9, unit="seconds")
    held = feed.cache_held()
    if held is not None:
        yield GaugeMetricFamily("penstock_cache_bytes", "Bytes in the node cache.", held[0], unit="bytes")
        yield GaugeMetricFamily("penstock_cache_limit_bytes", "Bound of the node cache.", held[1], unit="bytes")
