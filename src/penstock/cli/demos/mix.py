"""``penstock demo mix``: sounds in 12 languages, mixed exactly. A tiny model is trained, stopped and resumed."""

import hashlib
import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

import penstock
from penstock.cli.console import Terminal
from penstock.cli.demos.mix_data import HOURS, make_demo_data
from penstock.cli.demos.printing import heading, show_commands, show_state, verdict
from penstock.cli.progress import Progress
from penstock.feed import Feed
from penstock.manifest.publish import errors_naming

CONFIG = """\
# The run that `penstock demo` makes. Try:  penstock plan {name} --steps 40:41
recipe: raw
seed: 7
global_batch_size: 16
filelist: train.tsv
store: .
pool: 4
mixture: {{weights: {weights}}}
"""
STEPS = 60
STOP = 25


def show(folder: Path, console: Terminal) -> None:
    """Generate data in 12 languages, mix it, train, stop and resume.

    Args:
        folder: Folder for the data.
        console: Console to print to.
    """
    config = _prepare(folder, console)
    feed = penstock.open(config, rank=0, world=1)
    _show_mix(feed, console)
    whole, model = _train(feed, console)
    state = feed.state(STOP)
    show_state(console, f"\n3. Stop after {STOP} batches.", state)
    _resume(config, state, whole, model, console)
    show_commands(
        console,
        "\nAsk the plan, offline:",
        f"plan {config} --steps 40:41",
        f"where {config} assamese_00002 --epochs 2",
        f"bench {config}",
    )


def _prepare(folder: Path, console: Terminal) -> Path:
    config = folder / "demo.yaml"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with Progress("generating 12 languages") as progress:
            for _ in progress.track(make_demo_data(folder), len(HOURS)):
                pass
        with errors_naming(config):
            config.write_text(CONFIG.format(name=config, weights=json.dumps(HOURS).replace('"', "")))
    shards = sorted(folder.glob("*/*.tar"))
    size = sum(shard.stat().st_size for shard in shards) / 1e6
    heading(console, "1. Data:", f"{len(shards)} tar shards in 12 languages, {size:.0f} MB, in {folder}/")
    return config


def _show_mix(feed: Feed, console: Terminal) -> None:
    drawn = Counter[str]()
    worst = 0.0
    for step in range(STEPS):  # only the plan: no data is read
        drawn.update(line.source for line in feed.lines(step))
        worst = max(worst, *(abs(drawn[name] - _quota(name, 16 * (step + 1))) for name in HOURS))
    heading(console, "\n2. Mix:", f"{STEPS} batches of 16, weighted by the hours of a 70,000-hour corpus")
    table = Table("language", "share", "quota", "drawn", "off by")
    for column in table.columns[1:]:
        column.justify = "right"
    for name in HOURS:
        quota = _quota(name, 16 * STEPS)
        off = f"{drawn[name] - quota:+.2f}"
        table.add_row(name, f"{HOURS[name] / sum(HOURS.values()):.2%}", f"{quota:.2f}", str(drawn[name]), off)
    console.print(table)
    console.print(f"No language was ever more than {worst:.2f} samples from its quota.")


def _quota(name: str, samples: int) -> float:
    return samples * HOURS[name] / sum(HOURS.values())


class _Classifier:
    """Classifies the language: softmax regression on 64 spectral bands. Deterministic for the same order of batches."""

    def __init__(self) -> None:
        self.weights = np.zeros((65, len(HOURS)))

    def step(self, records: list[dict[str, bytes]], sources: list[str]) -> float:
        features = np.stack([_bands(record["wav"]) for record in records])
        target = np.eye(len(HOURS))[[list(HOURS).index(source) for source in sources]]
        scores = features @ self.weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        self.weights -= 0.3 * features.T @ (odds - target) / len(records)
        return float(-np.log((odds * target).sum(axis=1)).mean())


def _bands(wav: bytes) -> npt.NDArray[np.float64]:
    sound = np.frombuffer(wav, dtype="<i2", offset=44).astype(np.float64)
    spectrum = np.abs(np.fft.rfft(sound, n=32_768))[:8192]
    energy = np.log(spectrum.reshape(64, -1).sum(axis=1) + 1)
    return np.append((energy - energy.mean()) / energy.std(), 1.0)


def _digest(batch: dict[str, Any]) -> str:
    return hashlib.sha256(b"".join(record["wav"] + record["json"] for record in batch["records"])).hexdigest()


def _train(feed: Feed, console: Terminal) -> tuple[list[str], _Classifier]:
    model = _Classifier()
    digests: list[str] = []
    losses: list[float] = []
    with feed.loader(threads=4) as loader, Progress("training") as progress:
        for batch in progress.track(islice(loader, STEPS), STEPS):
            losses.append(model.step(batch["records"], batch["sources"]))
            digests.append(_digest(batch))
    first = np.mean(losses[:10])
    last = np.mean(losses[-10:])
    console.print(f"A tiny model, trained without interruption: loss {first:.2f} → {last:.2f} over {STEPS} steps.")
    return digests, model


def _resume(config: Path, state: dict[str, Any], whole: list[str], model: _Classifier, console: Terminal) -> None:
    heading(console, "\n4. Resume", "from that state, with other workers and ranks:")
    same = _continued(config, state, 1, 2) == whole[STOP:]
    verdict(console, same, f"1 rank, 2 worker processes: batches {STOP}–{STEPS - 1}, byte for byte")
    parts = [_rank_records(config, state, rank, 4) for rank in range(4)]
    joined = [{"records": [r for part in parts for r in part[i]]} for i in range(STEPS - STOP)]
    verdict(console, list(map(_digest, joined)) == whole[STOP:], "4 ranks, 1 thread each: the same global batches")
    replayed = _Classifier()
    feed = penstock.open(config, rank=0, world=1)
    for step in range(STEPS):
        batch = feed.batch(step)
        replayed.step(batch["records"], batch["sources"])
    verdict(
        console, np.array_equal(replayed.weights, model.weights), "the weights of a model trained again, bit for bit"
    )


def _continued(config: Path, state: dict[str, Any], world: int, workers: int) -> list[str]:
    with penstock.open(config, rank=0, world=world).loader(workers=workers) as loader:
        loader.load_state_dict(state)
        return [_digest(batch) for batch in islice(loader, STEPS - STOP)]


def _rank_records(config: Path, state: dict[str, Any], rank: int, world: int) -> list[list[dict[str, bytes]]]:
    with penstock.open(config, rank=rank, world=world).loader(threads=1) as loader:
        loader.load_state_dict(state)
        return [batch["records"] for batch in islice(loader, STEPS - STOP)]
