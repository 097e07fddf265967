"""Lightning: every batch once and in order, wherever the trainer saves and resumes."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import penstock
from penstock import Feed
from penstock.integrations.lightning import PenstockDataModule
from tests.shards import small_run, write_shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)  # 36 items
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    return penstock.open(small_run(folder, **{"global_batch_size": 4, **options}))


class Model(pl.LightningModule):
    """Remembers the ids of all batches. Its weights depend on their order, and on which gradients are accumulated."""

    def __init__(self, fail_at: int | None = None, fail_in: str = "training") -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.trained: list[list[str]] = []
        self.evaluated: list[list[str]] = []
        self.fail_at = fail_at
        self.fail_in = fail_in

    def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
        if self.fail_in == "training" and len(self.trained) == self.fail_at:
            raise KeyError("an accident")
        self.trained.append([id for id in batch["ids"] if id])
        codes = torch.tensor([[hash_of(id, k) for k in range(3)] for id in batch["ids"]], dtype=torch.float64)
        return (torch.tanh(codes @ self.weight) ** 2).mean()

    def validation_step(self, batch: dict[str, Any], _: int) -> None:
        if self.fail_in == "validation" and len(self.evaluated) == self.fail_at:
            raise KeyError("an accident")
        self.evaluated.append([id for id in batch["ids"] if id])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


def hash_of(id: str, k: int) -> float:
    return sum(id.encode()) * (k + 7) % 11 / 11


def trainer(tmp_path: Path, **options: Any) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return pl.Trainer(default_root_dir=tmp_path, **{**quiet, "enable_checkpointing": "callbacks" in options, **options})


def ids(feed: Feed, *steps: int) -> list[list[str]]:
    return [[line.item for line in feed.lines(step, rank=0, world=1)] for step in range(*steps)]


@pytest.mark.shows("Lightning", "endless run")
def test_a_checkpoint_at_any_step_of_an_endless_run_resumes_with_the_next_batch(folder: Path, tmp_path: Path) -> None:
    save = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    whole = Model()
    trainer(tmp_path, max_steps=6, callbacks=[save]).fit(whole, PenstockDataModule(opened(folder)))
    assert whole.trained == ids(opened(folder), 6)
    for step in range(1, 7):
        model = Model()
        again = trainer(tmp_path, max_steps=6)
        again.fit(model, PenstockDataModule(opened(folder)), ckpt_path=tmp_path / f"step={step}.ckpt")
        assert model.trained == ids(opened(folder), step, 6), step
        assert torch.equal(model.weight, whole.weight), step
