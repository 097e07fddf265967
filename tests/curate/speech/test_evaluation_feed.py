"""The evaluation feed: every sample once, in a fixed order, in full length, on any number of ranks."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import yaml

import penstock
from penstock.feed import Feed
from penstock.media.audio.features import feature_rows, w2v_bert_features
from tests.curate.speech.evaluations import build_from_folders, samples_in, write_folders

SHIPPED = Path(__file__).parents[3] / "config" / "evaluation.yaml"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """19 samples of 3 languages, where the shipped config expects them."""
    root = tmp_path_factory.mktemp("run")
    corpus = write_folders(root / "clips", clips=7, languages=("hindi", "odia", "tamil"))
    next((corpus / "tamil").rglob("clip3.wav")).unlink()
    next((corpus / "tamil").rglob("clip4.wav")).unlink()
    build_from_folders(corpus, root / "data" / "evaluation")
    return root / "data" / "evaluation"


@pytest.fixture(scope="module")
def stored(data: Path) -> dict[str, Any]:
    """By language and id, the samples as soundfile decodes them."""
    return {
        f"{archive.name.removesuffix('_eval.tar')}:{name}": soundfile.read(io.BytesIO(wav), dtype="float32")[0]
        for archive in data.glob("*_eval.tar")
        for name, (wav, _) in samples_in(archive).items()
    }


def opened(data: Path, **options: Any) -> Feed:
    """The shipped config, with its data found here."""
    shipped = yaml.safe_load(SHIPPED.read_text())
    where = {"filelist": data / "evaluation.tsv", "store": str(data)}
    cache = {"dir": data.parent / "cache", "size": "1GB"}
    return penstock.open({**shipped, **where, "cache": cache}, **options)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("size", [{"batch_size": 4}, {"global_batch_size": 6}])
def test_the_ranks_together_see_every_sample_exactly_once(
    data: Path, stored: dict[str, Any], world: int, size: dict[str, int]
) -> None:
    seen: list[str] = []
    for rank in range(world):
        each = opened(data, rank=rank, world=world, **{"batch_size": None, **size})
        batches = list(each.loader(threads=2))
        assert len(batches) == len(each) == -(-19 // (size.get("global_batch_size") or 4 * world))
        for batch in batches:
            names = [f"{source}:{name}" for source, name in zip(batch["sources"], batch["ids"], strict=True)]
            longest = max([16_000, *batch["length"].tolist()])
            assert batch["wav"].shape == (len(names), longest), "as wide as the longest clip, and a second at least"
            for name, valid, wav, length in zip(names, batch["valid"], batch["wav"], batch["length"], strict=True):
                assert not wav[length:].any()
                if valid:
                    np.testing.assert_array_equal(wav[:length].numpy(), stored[name])
                    seen.append(name)
                else:
                    assert (name, int(length)) == (":", 0)
    assert sorted(seen) == sorted(stored)


def test_the_order_is_fixed(data: Path) -> None:
    first, second = opened(data), opened(data)
    assert [first.batch(step)["ids"] for step in range(len(first))] == [
        second.batch(step)["ids"] for step in range(len(second))
    ]


def test_worker_processes_give_the_same_batches_though_each_is_as_wide_as_it_must(data: Path) -> None:
    feed = opened(data, batch_size=3)
    for batch in feed.loader(workers=2):
        alone = feed.batch(batch["step"])
        assert batch["ids"] == alone["ids"]
        torch.testing.assert_close(batch["wav"], alone["wav"], rtol=0, atol=0)


def test_a_bucket_feeds_the_same(data: Path, tmp_path: Path, s3) -> None:
    for archive in data.glob("*_eval.tar"):
        s3.put(archive.name, archive.read_bytes())
    near = opened(data)
    cache = {"dir": tmp_path / "cache", "size": "1GB"}
    far = opened(data, store=s3.url, remote={"endpoint": s3.server.url, "region": "us-east-1"}, cache=cache)
    assert len(far) == len(near) == 2
    for step in range(2):
        here, there = near.batch(step), far.batch(step)
        assert here["ids"] == there["ids"]
        torch.testing.assert_close(there["wav"], here["wav"], rtol=0, atol=0)


def test_a_clips_features_are_those_of_the_clip_alone(data: Path) -> None:
    feed = opened(data, speech={"crop": "full"}, batch_size=10)
    batch = feed.batch(1)
    assert batch["valid"].tolist() == [True] * 9 + [False]
    assert batch["feats"].shape[:2] == (10, 1) and batch["feats"].shape[3] == 160
    for wav, length, feats in zip(batch["wav"], batch["length"].tolist(), batch["feats"], strict=True):
        rows = feature_rows(length) if length else 0
        assert not feats[0, rows:].any()
        if length:
            torch.testing.assert_close(feats[0, :rows], w2v_bert_features(wav[None, :length])[0, 0])


def test_a_rank_whose_batch_is_all_padding_gets_a_second_of_silence(data: Path) -> None:
    spread = opened(data, batch_size=18, speech={"crop": "full"})
    assert [int(spread.batch(0, rank, 2)["valid"].sum()) for rank in range(2)] == [10, 9]
    # Of 24 places 19 have a sample, the fourth at 3 * 24 // 19 and the fifth at 4 * 24 // 19.
    empty = opened(data, batch_size=1, speech={"crop": "full"}).batch(0, 4, 24)
    assert not empty["valid"].any() and not empty["length"].any()
    assert empty["wav"].shape == (1, 16_000) and empty["feats"].shape == (1, 1, feature_rows(16_000), 160)


def test_a_damaged_sample_is_marked_and_has_no_substitute(data: Path, tmp_path: Path) -> None:
    for path in data.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    whole = bytearray((tmp_path / "odia_eval.tar").read_bytes())
    at = whole.index(b"RIFF")
    whole[at : at + 4] = b"RUFF"
    (tmp_path / "odia_eval.tar").write_bytes(whole)
    batches = list(opened(tmp_path, on_error="substitute", max_bad=1.0).loader(threads=0))
    assert sum(int(batch["valid"].sum()) for batch in batches) == 18
    assert sum(len(batch["bad"]) for batch in batches) == 1
