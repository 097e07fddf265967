"""The speech job by other loaders, each as its own documentation recommends: an endless iterator of batches of 16.

Every loader draws from 12 languages by their hours, shuffles, and decodes with the same ``speech_decode``.
"""

import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from speech_data import HOURS
from speech_decode import sample

BATCH = 16
SHARES = [hours / sum(HOURS.values()) for hours in HOURS.values()]
Batches = Iterator[dict[str, Any]]


def forever(loader: Any) -> Batches:
    while True:
        yield from loader


def data_set(job: str) -> str:
    return "flac" if job == "flac" else "wav"


def webdataset(folder: Path, job: str, workers: int) -> Batches:
    import webdataset as wds

    def language(name: str) -> Any:
        urls = sorted(str(path) for path in (folder / data_set(job) / name).glob("*.tar"))
        data = wds.WebDataset(urls, shardshuffle=len(urls)).repeat().shuffle(200)
        return data.map(partial(_webdataset_sample, job=job))

    mixed = wds.RandomMix([language(name) for name in HOURS], SHARES)
    return iter(wds.WebLoader(mixed, batch_size=BATCH, num_workers=workers))


def _webdataset_sample(record: dict[str, Any], job: str) -> dict[str, Any]:
    return {"language": record["__key__"].split("_")[0], **sample(record[data_set(job)], job)}


def mosaic(folder: Path, job: str, workers: int) -> Batches:
    import torchvision_schemas

    torchvision_schemas.declare()
    from streaming import Stream, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    from torch.utils.data import DataLoader

    class Clips(StreamingDataset):
        def __getitem__(self, at: int) -> dict[str, Any]:
            record = super().__getitem__(at)
            return {"language": record["id"].split("_")[0], **sample(record["audio"], job)}

    clean_stale_shared_memory()
    root = folder / f"{data_set(job)}-mds"
    streams = [Stream(local=str(root / name), proportion=share) for name, share in zip(HOURS, SHARES, strict=True)]
    return forever(DataLoader(Clips(streams=streams, shuffle=True, batch_size=BATCH), BATCH, num_workers=workers))


def litdata(folder: Path, job: str, workers: int) -> Batches:
    from litdata import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset

    class Clips(StreamingDataset):
        def __getitem__(self, index: Any) -> dict[str, Any]:
            record = super().__getitem__(index)
            return {"language": record["id"].split("_")[0], **sample(record["audio"], job)}

    root = folder / f"{data_set(job)}-litdata"
    mixed = CombinedStreamingDataset(
        [Clips(str(root / name), shuffle=True) for name in HOURS], weights=SHARES, iterate_over_all=False
    )
    return forever(StreamingDataLoader(mixed, batch_size=BATCH, num_workers=workers))


def naive(folder: Path, job: str, workers: int) -> Batches:
    """A map-style dataset over the members of the tars, with a weighted sampler."""
    import torch
    from torch.utils.data import DataLoader, WeightedRandomSampler

    clips = members(folder / data_set(job))
    counts = {name: sum(language == name for language, *_ in clips) for name in HOURS}
    weights = [HOURS[language] / counts[language] for language, *_ in clips]
    sampler = WeightedRandomSampler(torch.tensor(weights, dtype=torch.float64), 1_000_000)
    return forever(DataLoader(_Members(clips, job), BATCH, sampler=sampler, num_workers=workers))


class _Members:
    def __init__(self, clips: list[tuple[str, Path, int, int]], job: str) -> None:
        self.clips, self.job = clips, job

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> dict[str, Any]:
        language, shard, offset, size = self.clips[index]
        with open(shard, "rb") as file:
            file.seek(offset)
            return {"language": language, **sample(file.read(size), self.job)}


def members(folder: Path) -> list[tuple[str, Path, int, int]]:
    """(language, shard, offset, size) of every clip."""
    found = []
    for shard in sorted(folder.glob("*/*.tar")):
        with tarfile.open(shard) as tar:
            found += [
                (shard.parent.name, shard, member.offset_data, member.size)
                for member in tar
                if not member.name.endswith(".json")
            ]
    return found


LOADERS = {"webdataset": webdataset, "mosaic": mosaic, "litdata": litdata, "naive": naive}
