"""Bare decoding: the frames of random batches, all bytes in memory, one open decoder per core, and nothing else."""

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from robot_data import CAMERAS, FRAMES_PER_EPISODE
from robot_jobs import BATCH, WINDOW, Job

from penstock.readers.mp4.clip import pieces


class Film:
    """All packets of a video, and a decoder."""

    def __init__(self, path: Path) -> None:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            packets = [packet for packet in container.demux(stream) if packet.dts is not None]
            self._codec: Any = av.CodecContext.create(stream.codec_context.name, "r")
            self._codec.extradata = stream.codec_context.extradata
        self._codec.thread_count = 1
        self._packets = [bytes(packet) for packet in packets]
        number = np.arange(len(packets))
        self.starts = np.maximum.accumulate(np.where([packet.is_keyframe for packet in packets], number, 0))
        self._reformatter = VideoReformatter()

    def decode(self, frames: Any, out: Any) -> None:
        """Decode frames, each once, and write them one after another, over and over from the beginning."""
        place = 0
        for (first, last), own in pieces(self.starts, frames.tolist()):
            wanted = set(own)
            for frame in self._decoded(first, last):
                if frame.pts in wanted:
                    rgb = self._reformatter.reformat(frame, format="rgb24", threads=1)
                    plane = np.frombuffer(rgb.planes[0], np.uint8).reshape(rgb.height, -1)[:, : rgb.width * 3]
                    out[place % len(out)] = plane.reshape(rgb.height, rgb.width, 3)
                    place += 1

    def _decoded(self, first: int, last: int) -> Iterator[Any]:
        for number in range(first, last + 1):
            packet = av.Packet(self._packets[number])
            packet.pts = number
            packet.dts = number
            yield from self._codec.decode(packet)
        yield from self._codec.decode(None)
        self._codec.flush_buffers()


def decode_until_parent_ends(folder: Path, job: Job, seed: int, pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    os.close(reads)  # with the last of its readers gone, a write fails: the process ends
    films = [Film(next((folder / job.dataset / "videos" / camera).rglob("*.mp4"))) for camera in CAMERAS]
    frames = len(films[0].starts)
    shape = next(av.open(str(next((folder / job.dataset).rglob("*.mp4")))).decode(video=0)).to_ndarray(format="rgb24")
    out = np.empty((BATCH * (WINDOW if job.windows else 1), *shape.shape), np.uint8)
    random = np.random.default_rng(seed)
    while True:
        chosen = random.choice(frames, BATCH, replace=False)
        if job.windows:
            inside = chosen % FRAMES_PER_EPISODE
            back = np.minimum(np.arange(WINDOW), inside[:, None])
            chosen = (chosen[:, None] - back).ravel()
        for film in films:
            film.decode(chosen, out)
        os.write(writes, b".")


def limit(folder: Path, job: Job, workers: int) -> Iterator[dict[str, Any]]:
    """Yield once per batch that one of the processes has decoded."""
    reads, writes = os.pipe()
    fork = multiprocessing.get_context("fork")
    for seed in range(workers):
        fork.Process(target=decode_until_parent_ends, args=(folder, job, seed, (reads, writes)), daemon=True).start()
    os.close(writes)
    while os.read(reads, 1):
        yield {"index": range(BATCH)}
