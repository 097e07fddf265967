"""Robot datasets in a bucket, and what each of their episodes takes there, by PyAV and pyarrow alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.curate.robot.writer import Episode, Layout, write_dataset
from penstock.feed import Feed
from penstock.media.video.encoding import Encoding
from penstock.readers.mp4.header import head_bytes
from penstock.store.cache.cache import NodeCache
from tests.conftest import S3Prefix
from tests.servers.faultproxy import FaultProxy, Request

CAMERA = "observation.images.top"
EPISODES = 96
LENGTH = 10  # frames of an episode
EPISODES_PER_VIDEO = 48
FPS = 10
PART = 4_096
TAIL = 64 << 10  # bytes of a file of rows that are read for its footer
Span = tuple[str, int, int]  # path, first byte, byte after the last
Counts = NDArray[np.int64]


class Frame(NamedTuple):
    """A frame of a video."""

    span: Span
    is_key: bool


@dataclass(frozen=True)
class Robots:
    """A dataset whose files are larger than what is fetched as a whole: noise does not compress."""

    folder: Path

    @cached_property
    def sizes(self) -> dict[str, int]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in files}

    @cached_property
    def frames(self) -> dict[int, list[Frame]]:
        """Where the frames of each episode lie, in order."""
        found: dict[int, list[Frame]] = {}
        for number, path in enumerate(sorted(path for path in self.sizes if path.endswith(".mp4"))):
            with av.open(str(self.folder / path)) as video:
                packets = [packet for packet in video.demux(video=0) if packet.pos is not None and packet.size]
            assert len(packets) == EPISODES_PER_VIDEO * LENGTH
            for at, packet in enumerate(packets):
                episode = number * EPISODES_PER_VIDEO + at // LENGTH
                span = (path, packet.pos, packet.pos + packet.size)
                found.setdefault(episode, []).append(Frame(span, packet.is_keyframe))
        return found

    @cached_property
    def rows(self) -> dict[int, Span]:
        """Where the rows of each episode lie."""
        [path] = [path for path in self.sizes if path.startswith("data/")]
        footer = pq.read_metadata(self.folder / path)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        columns = [[group.column(number) for number in range(group.num_columns)] for group in groups]
        starts = [min(c.dictionary_page_offset or c.data_page_offset for c in own) for own in columns]
        sizes = [sum(column.total_compressed_size for column in own) for own in columns]
        spans = zip(starts, sizes, strict=True)
        return {episode: (path, start, start + size) for episode, (start, size) in enumerate(spans)}

    def video_span(self, episode: int) -> Span:
        """Return all bytes of an episode's frames."""
        path, start, _ = self.frames[episode][0].span
        return path, start, self.frames[episode][-1].span[2]

    def sample_spans(self, episode: int, frame: int) -> list[Span]:
        """Return the bytes of a sample: its rows, and its group of pictures up to its frame."""
        path, _, end = self.frames[episode][frame].span
        keys = [each.span for each in self.frames[episode][: frame + 1] if each.is_key]
        return [self.rows[episode], (path, keys[-1][1], end)]

    @cached_property
    def all_headers(self) -> list[Span]:
        """The bytes of large files that hold no episode, and those that are read to find where a header lies."""
        return [span for path in self.sizes if self.is_large(path) for span in self._headers(path)]

    def _headers(self, path: str) -> list[Span]:
        if path.endswith(".parquet"):
            last = max(end for _, _, end in self.rows.values())
            return [(path, min(last, self.sizes[path] - TAIL), self.sizes[path])]
        own = [frame.span for frames in self.frames.values() for frame in frames if frame.span[0] == path]
        first = min(start for _, start, _ in own)
        last = max(end for _, _, end in own)
        return [(path, 0, max(first, head_bytes(self.sizes[path]))), (path, last, self.sizes[path])]

    def count(self, spans: Iterable[Span]) -> dict[str, Counts]:
        """Return for each byte of the large files in how many spans it is."""
        found = {path: np.zeros(size, np.int64) for path, size in self.sizes.items() if self.is_large(path)}
        for path, start, end in spans:
            found[path][start:end] += 1
        return found

    def is_large(self, path: str) -> bool:
        return path.endswith(".mp4") or path.startswith("data/")


def make_robots(folder: Path, header_in_front: bool) -> Robots:
    """Write a dataset: noise of 64², groups of two pictures, a row group per episode."""
    random = np.random.default_rng(0)
    episodes = []
    for number in range(EPISODES):
        values = {
            "observation.state": random.normal(size=(LENGTH, 512)).astype(np.float32),
            CAMERA: random.integers(0, 256, (LENGTH, 64, 64, 3), dtype=np.uint8),
        }
        episodes.append(Episode(f"task {number % 3}", values))
    encoding = Encoding(group=2, crf=10, header_in_front=header_in_front)
    layout = Layout(episodes_per_video_file=EPISODES_PER_VIDEO, encoding=encoding)
    write_dataset(folder, episodes, fps=FPS, layout=layout)
    robots = Robots(folder)
    assert all(size > 2**20 for path, size in robots.sizes.items() if robots.is_large(path)), robots.sizes
    return robots


def upload(s3: S3Prefix, robots: Robots) -> None:
    for path in robots.sizes:
        s3.put(path, (robots.folder / path).read_bytes())


def robot_run(folder: Path, store: object, *, size: int = 10**9, **options: Any) -> dict[str, Any]:
    """Options of a run, through a cache of small parts. Its order does not depend on where the dataset lies."""
    NodeCache(folder / "cache", size, part_bytes=PART).close()
    own = {key: options.pop(key) for key in ("remote", "episodes") if key in options}
    return {
        "recipe": "robot",
        "seed": 3,
        "global_batch_size": 8,
        "sources": [{"name": "robots", "store": str(store), **own}],
        "cache": {"dir": str(folder / "cache"), "size": size},
        **options,
    }


def through(proxy: FaultProxy) -> dict[str, str]:
    return {"endpoint": proxy.url, "region": "us-east-1"}


def requested(s3: S3Prefix, robots: Robots, requests: Iterable[Request]) -> list[Span]:
    """Return the ranges of large files that were asked for, in order."""
    spans = [(request.key.removeprefix(f"{s3.prefix}/"), request.start, request.end) for request in requests]
    return [span for span in spans if span[0] in robots.sizes and robots.is_large(span[0])]


def planned(feed: Feed, step: int) -> list[tuple[int, int]]:
    """Return episode and frame of each sample of a step."""
    found = []
    for line in feed.lines(step):
        episode, frame = line.item.split(":")
        found.append((int(episode), int(frame)))
    return found


def in_parts(spans: Iterable[Span]) -> list[Span]:
    """Return spans that reach into all parts that they touch, wherever a unit begins: a part more at both ends."""
    return [(path, max(0, start - PART), end + PART) for path, start, end in spans]
