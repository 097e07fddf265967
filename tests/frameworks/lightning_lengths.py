"""Trains on batches by length with Lightning: one training step gets all batches that its rank has in a step.

torchrun --nproc-per-node 2 tests/frameworks/lightning_lengths.py train.yaml RUN STEPS
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from penstock.integrations.lightning import PenstockDataModule


class Loudness(L.LightningModule):
    def __init__(self, run: Path) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.run = run
        self.heard = torch.nn.Conv1d(1, 1, 400, stride=160)

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        return self.heard(batch["wav"][:, None]).mean(2).square().sum()

    def training_step(self, units: list[dict[str, Any]], _: int) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        for batch in units:
            self.manual_backward(self(batch) * self.trainer.world_size / batch["global_samples"])
        optimizer.step()
        ids = [id for batch in units for id in batch["ids"]]
        line = {"step": units[0]["step"], "world": self.trainer.world_size, "ids": ids, "units": len(units)}
        with (self.run / f"trained.{self.global_rank}.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-2)


if __name__ == "__main__":
    config, run, steps = sys.argv[1:]
    L.seed_everything(1)
    saving = ModelCheckpoint(run, every_n_train_steps=5, save_last=True)
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    trainer = L.Trainer(strategy="ddp", devices=processes, callbacks=[saving], logger=False, max_steps=int(steps))
    trainer.fit(Loudness(Path(run)), PenstockDataModule(config), ckpt_path="last")
    trainer.save_checkpoint(Path(run) / "final.ckpt")
