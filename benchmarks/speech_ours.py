"""The speech job by Penstock in each of its modes, and by no loader at all: the limits of one thread."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from speech_data import HOURS
from speech_decode import CROP, RATE
from speech_peers import BATCH, SHARES, data_set, members

Batches = Iterator[dict[str, Any]]


def open_feed(folder: Path, job: str) -> Any:
    import penstock

    return penstock.open(
        recipe="speech",
        manifest=folder / f"{data_set(job)}.manifest",
        store=str(folder / data_set(job)),
        batch_size=BATCH,
        mixture={"weights": HOURS},
        speech={"features": job == "feats"},
    )


def threads(folder: Path, job: str, workers: int) -> Batches:
    return open_feed(folder, job).loader(threads=workers)


def processes(folder: Path, job: str, workers: int) -> Batches:
    return open_feed(folder, job).loader(workers=workers)


def dataloader(folder: Path, job: str, workers: int) -> Batches:
    from torch.utils.data import DataLoader

    feed = open_feed(folder, job)
    return iter(DataLoader(feed, batch_size=None, sampler=feed.steps(), num_workers=workers))


def limit(folder: Path, job: str, workers: int) -> Batches:
    """One thread, the places of all clips known, rows written over and over. WAV: memory map + convert; FLAC: seek."""
    assert not workers
    clips = members(folder / data_set(job))
    maps = {shard: np.memmap(shard, np.uint8, "r") for _, shard, *_ in clips}
    by_language = [[clip for clip in clips if clip[0] == name] for name in HOURS]
    random, row_of = np.random.default_rng(0), _flac_row if job == "flac" else _wav_row
    rows = np.zeros((BATCH, CROP), np.float32)
    while True:
        languages = random.choice(len(HOURS), BATCH, p=SHARES).tolist()
        draws = random.random((BATCH, 2)).tolist()
        for row, language, (which, where) in zip(rows, languages, draws, strict=True):
            ours = by_language[language]
            _, shard, offset, size = ours[int(which * len(ours))]
            row_of(maps[shard][offset : offset + size], where, row)
        yield {"wav": rows}


def _wav_row(file: Any, where: float, row: Any) -> None:
    sound = file[44:].view("<i2")
    start = int(where * (max(0, len(sound) - CROP) + 1))
    part = sound[start : start + CROP]
    np.multiply(part, np.float32(1 / 32_768), out=row[: len(part)])
    row[len(part) :] = 0.0


def _flac_row(file: Any, where: float, row: Any) -> None:
    import soundfile
    import soxr

    with soundfile.SoundFile(io.BytesIO(file.tobytes())) as flac:
        size = CROP * flac.samplerate // RATE
        flac.seek(int(where * (max(0, flac.frames - size) + 1)))
        part = soxr.resample(flac.read(size, dtype="float32"), flac.samplerate, RATE)[:CROP]
    row[: len(part)] = part
    row[len(part) :] = 0.0


LOADERS = {"threads": threads, "processes": processes, "dataloader": dataloader, "limit": limit}
