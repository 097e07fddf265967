"""Train a small speech codec from tar shards in a bucket or a folder.

    python examples/speech/train.py dataset=demo
    python examples/speech/train.py --config-name indic_default dataset=r2_indic
    torchrun --nproc_per_node=8 examples/speech/train.py train=indic_16k dataset=r2_indic

Start it again with the same run folder and it goes on from its last checkpoint, exactly. control.py operates it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import torch
from omegaconf import DictConfig, OmegaConf

import penstock
import ranks
from codec import ModelSize
from course import Settings
from dataset import Dataset, held_out_options, loader_options
from demo import make_demo
from operation import Operation
from runfolder import RunFolder
from trainer import Trainer


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to train, and how often to do what. ``deterministic`` makes two runs equal to the last bit."""

    steps: int
    lr: float
    log_every: int
    checkpoint_every: int
    evaluate_every: int
    deterministic: bool


def train(config: dict[str, Any], device: torch.device) -> Trainer:
    """Train from the last checkpoint of the run folder on, to the end or until told to stop."""
    dataset, schedule = Dataset(**config["dataset"]), Schedule(**config["train"])
    if dataset.name == "demo" and ranks.first():
        make_demo(Path(dataset.store))
    ranks.wait()
    folder = RunFolder(Path(config["run_dir"]))
    saved = folder.checkpoint()
    torch.use_deterministic_algorithms(schedule.deterministic)
    trainer = Trainer(ModelSize(**config["model"]), seed=dataset.seed, device=device)
    if saved:
        trainer.load_state_dict(saved["trainer"])
    distances: dict[int, float] = saved["held_out"] if saved else {}
    settings = Settings(schedule.lr, schedule.log_every)

    with Operation(folder, dataset, settings, config["usage"], saved) as run:

        def save() -> None:
            if ranks.first():
                content = {"trainer": trainer.state_dict(), "held_out": distances, "config": config}
                folder.save_checkpoint(content | run.state_dict())

        def evaluate() -> None:
            if dataset.held_out is not None and run.step not in distances:
                distances[run.step] = held_out_distance(trainer, dataset, dataset.held_out)
                report(folder, run.step, {"held_out_mel": distances[run.step]})

        evaluate()
        while run.step < schedule.steps and run.obey(save):
            learn(trainer, run, folder)
            if run.step % schedule.evaluate_every == 0 or run.step == schedule.steps:
                evaluate()
            if run.step % schedule.checkpoint_every == 0 or run.step == schedule.steps:
                save()

    if distances and ranks.first():
        first, last = min(distances), max(distances)
        print(f"held-out mel loss: {distances[first]:.3f} at step {first}, {distances[last]:.3f} at step {last}")
    return trainer


def learn(trainer: Trainer, run: Operation, folder: RunFolder) -> None:
    """One step."""
    settings = run.settings()
    losses = trainer.step(next(run.loader), settings.lr)
    if run.step % settings.log_every == 0:
        report(folder, run.step, losses | {"lr": settings.lr})


def held_out_distance(trainer: Trainer, dataset: Dataset, filelist: str) -> float:
    """The mean log-mel distance over every held-out clip, each once, shared by the ranks."""
    total = torch.zeros(2, dtype=torch.float64)
    with penstock.open(held_out_options(dataset, filelist)).loader(**loader_options(dataset)) as loader:
        for batch in loader:
            valid = torch.from_numpy(batch["valid"])
            total += torch.tensor([trainer.mel(batch).cpu()[valid].sum(), valid.sum()])
    distance, clips = ranks.summed(total)
    return float(distance / clips)


def report(folder: RunFolder, step: int, values: dict[str, float]) -> None:
    if ranks.first():
        folder.note("metrics.jsonl", {"step": step, **values})
        print(f"step {step}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items()), flush=True)


@hydra.main(version_base="1.3", config_path="../../config", config_name="indic_default")
def main(config: DictConfig) -> None:
    device = ranks.start()
    try:
        train(OmegaConf.to_container(config, resolve=True), device)  # type: ignore[arg-type]
    finally:
        ranks.stop()


if __name__ == "__main__":
    main()
