"""The configs of the speech example, as Hydra composes them, in Penstock's words."""

from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import penstock
from penstock.config import make_config
from penstock.pipelines import PIPELINES
from tests.examples.conftest import SPEECH

from dataset import Dataset, feed_options, first_mixture, held_out_options, loader_options  # isort: skip


def composed(*overrides: str) -> Dataset:
    with initialize_config_dir(str(SPEECH.parents[1] / "config"), version_base="1.3"):
        config = compose("indic_default", list(overrides))
    return Dataset(**OmegaConf.to_container(config.dataset, resolve=True))  # type: ignore[arg-type]


@pytest.fixture
def r2_indic(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setenv("R2_ACCOUNT", "0123abcd")
    return composed("dataset=r2_indic")


def test_the_names_of_the_document_mean_what_it_says(r2_indic: Dataset) -> None:
    config = make_config(feed_options(r2_indic, first_mixture(r2_indic)), PIPELINES, folder=Path())
    (source,) = config.sources
    assert (source.recipe, source.keys.store) == ("speech", "r2://0123abcd/xcodec")
    assert source.keys.filelist == Path("data/filelists/train.tsv").absolute()
    assert config.cache is not None and config.cache.dir == Path("/nvme/shard_cache")
    assert config.cache.size == 500 * 1024**3
    assert config.options["speech"].crop == 6.0
    assert (config.mixture[0].weights, config.mixture[0].temperature) == ("hours", 1.0)


def test_workers_are_threads_or_processes_with_batches_ahead(r2_indic: Dataset) -> None:
    assert loader_options(r2_indic) == {"threads": 8, "prefetch": 4}
    assert loader_options(replace(r2_indic, workers="processes")) == {"workers": 8, "prefetch": 4}


def test_a_cache_size_may_be_a_fraction(r2_indic: Dataset) -> None:
    options = feed_options(replace(r2_indic, cache_size_gb=0.5), first_mixture(r2_indic))
    assert options["cache"]["size"] == 512 * 1024**2


def test_an_unknown_key_of_a_dataset_is_named() -> None:
    with pytest.raises(TypeError, match="cache_size_tb"):
        composed("dataset=demo", "+dataset.cache_size_tb=1")


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_loader_of_either_kind_gives_the_batches_of_the_feed(clips: Path, workers: str, tmp_path: Path) -> None:
    demo = composed(
        "dataset=demo",
        f"dataset.store={clips}",
        f"dataset.cache_dir={tmp_path}",
        f"dataset.workers={workers}",
        "dataset.crop=500ms",
    )
    feed = penstock.open(feed_options(demo, first_mixture(demo)), rank=0, world=1)
    with feed.loader(**loader_options(demo)) as loader:
        batch = next(loader)
    assert batch["ids"] == feed.batch(0)["ids"]
    assert batch["wav"].shape == (8, 8000) and batch["feats"].shape == (8, 1, 25, 160)


@pytest.mark.parametrize("by", ["environment", "remote"])
def test_a_server_of_ones_own_is_reached_by_the_environment_or_by_remote(
    clips: Path, by: str, s3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("R2_ACCOUNT", "0123abcd")
    for shard in clips.rglob("*.tar"):
        s3.put(shard.relative_to(clips).as_posix(), shard.read_bytes())
    own = ["dataset.remote.endpoint=" + s3.server.url, "dataset.remote.region=us-east-1"]
    if by == "environment":
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.server.url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        own = []
    cache = [f"dataset.cache_dir={tmp_path / 'cache'}", "dataset.cache_size_gb=0.5"]
    rest = [f"dataset.filelist={clips / 'train.tsv'}", "dataset.crop=500ms", "dataset.global_batch_size=4"]
    data = composed("dataset=r2_indic", f"dataset.store={s3.url}", *own, *cache, *rest)
    feed = penstock.open(feed_options(data, first_mixture(data)), rank=0, world=1)
    assert feed.batch(0)["wav"].shape == (4, 8000)
    feed.close()


def test_held_out_clips_come_exactly_once_and_are_never_trained_on(clips: Path) -> None:
    demo = composed("dataset=demo", f"dataset.store={clips}", "dataset.crop=500ms")
    assert demo.held_out is not None
    feed = penstock.open(held_out_options(demo, demo.held_out), rank=0, world=1)
    seen = [batch["ids"][slot] for batch in feed.loader(threads=0) for slot in batch["valid"].nonzero()[0]]
    held_out, trained = (_ids(clips / name) for name in ("held_out.tsv", "train.tsv"))
    assert sorted(seen) == sorted(held_out) and not set(held_out) & set(trained)


def _ids(filelist: Path) -> list[str]:
    return [line.split("\t")[1] for line in filelist.read_text().splitlines()]
