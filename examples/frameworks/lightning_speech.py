"""Train a model that tells spoken languages apart, with Lightning. Start it again to resume.

    penstock demo
    (sed 's/raw/speech/' demo-data/demo.yaml; echo 'speech: {crop: 1s, features: false}') > demo-data/train.yaml
    (cat demo-data/train.yaml; echo 'passes: 1') > demo-data/eval.yaml
    torchrun --nproc-per-node 2 examples/frameworks/lightning_speech.py demo-data/train.yaml demo-data/eval.yaml \
        runs/lightning --steps 40

Each rank appends what it trained on to RUN/trained.RANK.jsonl, and what it evaluated to RUN/evaluated.RANK.jsonl.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from penstock.integrations.lightning import PenstockDataModule


class Languages(L.LightningModule):
    def __init__(self, languages: tuple[str, ...], run: Path) -> None:
        super().__init__()
        self.numbers = {language: number for number, language in enumerate(languages)}
        self.run = run
        self.heard = torch.nn.Sequential(torch.nn.Conv1d(1, 16, 400, stride=160), torch.nn.ReLU())
        self.named = torch.nn.Linear(16, len(languages))
        self.register_buffer("right", torch.zeros(2), persistent=False)

    def forward(self, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        answers = [self.numbers.get(language, 0) for language in batch["sources"]]
        return self.named(self.heard(batch["wav"][:, None]).mean(2)), torch.tensor(answers, device=self.device)

    def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(*self(batch))
        self.write("trained", batch, loss=loss.item())
        return loss

    def validation_step(self, batch: dict[str, Any], _: int) -> None:
        scores, answers = self(batch)
        valid = torch.as_tensor(batch["valid"], device=self.device)  # False for padding of the last batch
        self.right += torch.stack([(valid & (scores.argmax(1) == answers)).sum(), valid.sum()])
        self.write("evaluated", batch, at=self.global_step)

    def on_validation_epoch_end(self) -> None:
        right, of = self.all_gather(self.right).reshape(-1, 2).sum(0)
        self.print(f"step {self.global_step}: {right:.0f} of {of:.0f} right")
        self.right.zero_()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)

    def write(self, name: str, batch: dict[str, Any], **more: float) -> None:
        if not self.trainer.sanity_checking:
            line = {"step": batch["step"], "world": self.trainer.world_size, "ids": batch["ids"], **more}
            with (self.run / f"{name}.{self.global_rank}.jsonl").open("a") as log:
                log.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("configs", nargs=2, help="config of the run, and of the evaluation")
    parser.add_argument("run", type=Path, help="folder for checkpoints and logs")
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps")
    parser.add_argument("--accumulate", type=int, default=1, help="batches per optimizer step")
    args = parser.parse_args()
    args.run.mkdir(parents=True, exist_ok=True)
    L.seed_everything(1)
    data = PenstockDataModule(*args.configs)
    saving = ModelCheckpoint(args.run, every_n_train_steps=5, save_last=True)
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    accumulation = {"accumulate_grad_batches": args.accumulate, "max_steps": args.steps, "val_check_interval": 10}
    trainer = L.Trainer(strategy="ddp", devices=processes, callbacks=[saving], logger=False, **accumulation)
    trainer.fit(Languages(data.train.catalog.sources, args.run), data, ckpt_path="last")
    trainer.save_checkpoint(args.run / "final.ckpt")
