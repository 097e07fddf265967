"""The keys of ``config/dataset/*.yaml`` in Penstock's own words. Opens nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where the speech is, and how it is fed.

    Attributes:
        store: Folder or URL that shard paths of the filelist are relative to.
        remote: Endpoint, region, anonymous access and request rate of a bucket; AWS_ENDPOINT_URL works, too.
        held_out: Filelist of clips that are never trained on, if any.
        cache_dir: Folder of the node cache; None for a local store, which is read in place.
        cache_size_gb: Bound of the cache, in units of 1024³ bytes.
        num_workers: Threads per rank that make batches (processes with ``workers: processes``).
        prefetch_factor: Batches that each of them makes ahead.
        lanes: Number of nodes, so that no two of them download the same shard.
        mixture: One mixture, or a list of mixtures, each used from sample ``at`` on.
    """

    name: str
    store: str
    remote: Mapping[str, Any]
    filelist: str
    held_out: str | None
    global_batch_size: int
    crop: str
    seed: int
    cache_dir: str | None
    cache_size_gb: float
    num_workers: int
    prefetch_factor: int
    workers: Literal["threads", "processes"]
    lanes: int
    mixture: Mapping[str, Any] | Sequence[Mapping[str, Any]]


def feed_options(dataset: Dataset, mixture: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What ``penstock.open`` takes; as YAML it is a config that the ``penstock`` commands take."""
    mixtures = [dict(entry) for entry in mixture]
    return _speech(dataset, dataset.filelist) | {"lanes": dataset.lanes, "mixture": mixtures}


def held_out_options(dataset: Dataset, filelist: str) -> dict[str, Any]:
    """Every held-out clip once; what is missing in the last batch is marked."""
    return _speech(dataset, filelist) | {"passes": 1}


def loader_options(dataset: Dataset) -> dict[str, int]:
    """What ``feed.loader`` takes."""
    kind = "threads" if dataset.workers == "threads" else "workers"
    return {kind: dataset.num_workers, "prefetch": dataset.prefetch_factor}


def first_mixture(dataset: Dataset) -> list[dict[str, Any]]:
    """The configured schedule of mixtures, as a list that begins at sample 0."""
    given = [dataset.mixture] if isinstance(dataset.mixture, Mapping) else dataset.mixture
    return [{"at": 0, **entry} for entry in given]


def _speech(dataset: Dataset, filelist: str) -> dict[str, Any]:
    store = dataset.store if "://" in dataset.store else str(Path(dataset.store).absolute())
    options: dict[str, Any] = {
        "recipe": "speech",
        "seed": dataset.seed,
        "global_batch_size": dataset.global_batch_size,
        "store": store,
        "remote": dict(dataset.remote),
        "filelist": str(Path(filelist).absolute()),
        "speech": {"crop": dataset.crop},
    }
    if dataset.cache_dir is not None:
        size = round(dataset.cache_size_gb * GIB)
        options["cache"] = {"dir": str(Path(dataset.cache_dir).absolute()), "size": size}
    return options
