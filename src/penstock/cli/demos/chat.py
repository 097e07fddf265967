"""``penstock demo chat``: text, images and sounds, packed. A tiny model is trained, stopped and resumed."""

import copy
import hashlib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

import penstock
from penstock.cli.console import Terminal, escaped
from penstock.cli.demos.chat_data import RECORDS, TOKENS, make_chat_data
from penstock.cli.demos.printing import heading, show_commands, show_state, verdict
from penstock.cli.progress import Progress
from penstock.feed import Feed
from penstock.manifest.publish import errors_naming
from penstock.pipelines import ChatOptions
from penstock.recipes.chat import PACKAGES
from penstock.recipes.chat_media import MEDIA_PACKAGES
from penstock.recipes.extras import require_packages

if TYPE_CHECKING:
    from penstock.cli.demos.chat_model import Trainer

CONFIG = """\
# The run that `penstock demo chat` makes. Try:  penstock replay {name} --steps 3 --html page.html
recipe: chat
seed: 7
global_batch_size: {rows}   # rows: each is a pack of samples
sources:
  - {{name: sums, dtype: conversation, path: sums.jsonl}}
  - {{name: home, dtype: tool_use, path: home.jsonl}}
  - {{name: shapes, dtype: vision, path: shapes.jsonl}}
  - {{name: tones, dtype: voice_asr, path: tones.jsonl}}
mixture: {{weights: {{sums: 1, home: 1, shapes: 2, tones: 2}}}}
chat:
  tokenizer: tokenizer
  max_length: {length}
  pack: true
  image_size: {image_size}
  audio_max_length: 50   # in units of 10 ms
  tokens:
{tokens}
"""
KINDS = {"sums": "conversations", "home": "tool calls", "shapes": "with an image", "tones": "with a sound"}
ROWS = 4
LENGTH = 384
IMAGE_SIZE = 16
STEPS = 60
STOP = 25


def show(folder: Path, console: Terminal) -> None:
    """Generate sources, pack them, train, stop and resume.

    Args:
        folder: Folder for the data.
        console: Console to print to.
    """
    require_packages("penstock demo chat", "chat", *PACKAGES, *MEDIA_PACKAGES)
    config = _prepare(folder, console)
    feed = penstock.open(config, rank=0, world=1)
    _show_batch(feed, console)
    whole, trainer, saved = _train(feed, console)
    state = feed.state(STOP)
    show_state(console, f"\n4. Stop after {STOP} batches.", state)
    _resume(config, state, whole, trainer, saved, console)
    show_commands(
        console,
        "\nLook into the run:",
        f"replay {config} --steps 3 --html page.html",
        f"where {config} shapes.jsonl:7 --epochs 2",
        f"mix {config}",
    )


def _prepare(folder: Path, console: Terminal) -> Path:
    config = folder / "demo.yaml"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with Progress("generating 4 sources") as progress:
            for _ in progress.track(make_chat_data(folder), len(RECORDS)):
                pass
        tokens = "\n".join(f'    {name}: "{token}"' for name, token in TOKENS.items())
        text = CONFIG.format(name=config, rows=ROWS, length=LENGTH, image_size=IMAGE_SIZE, tokens=tokens)
        with errors_naming(config):
            config.write_text(text)
    heading(console, "1. Data:", f"{len(RECORDS)} sources of JSON lines, with PNG and WAV files, in {folder}/")
    table = Table("source", "records", "")
    for name, records in RECORDS.items():
        table.add_row(name, str(records), KINDS[name])
    console.print(table)
    return config


def _show_batch(feed: Feed, console: Terminal) -> None:
    """Print what a batch holds, and one of its samples."""
    batch = feed.batch(0)
    lengths = _lengths(batch)
    padding = 1 - lengths.sum() / (ROWS * LENGTH)
    alone = 1 - lengths.mean() / lengths.max()
    heading(console, "\n2. A batch:", f"{ROWS} rows of {LENGTH} tokens hold {len(lengths)} samples")
    console.print(f"{padding:.0%} of it is padding; with one sample per row it would be {alone:.0%}.")
    for key in ("input_ids", "labels", "position_ids", "images", "audio"):
        if key in batch:
            console.print(f"  {key:<12} {list(batch[key].shape)}")
    console.print("One of them, with the trained part in green:")
    text = next(text for text in batch["text"] if TOKENS["tool_call"] in text)
    console.print(_colored(text[text.index(TOKENS["user_start"]) :]))


def _lengths(batch: dict[str, Any]) -> npt.NDArray[np.int64]:
    """Return the tokens of each sample of a batch."""
    rows = batch["sequence_ids"].numpy()
    return np.concatenate([np.bincount(row)[1:] for row in rows])


def _colored(text: str) -> Text:
    shown = Text("  ")
    for number, part in enumerate(text.split(TOKENS["assistant_start"])):
        trained, end, rest = part.partition(TOKENS["assistant_end"]) if number else ("", "", part)
        if number:
            shown.append(TOKENS["assistant_start"])
            shown.append(escaped(trained + end), "green")
        shown.append(escaped(rest))
    return shown


def _digest(batch: dict[str, Any]) -> str:
    """A digest of all that the model sees."""
    found = hashlib.sha256()
    for key in ("input_ids", "labels", "position_ids", "sequence_ids", "images", "image_rows", "audio", "audio_rows"):
        if key in batch:
            found.update(batch[key].numpy().tobytes())
    return found.hexdigest()


def _new_trainer(feed: Feed) -> "Trainer":
    import torch
    from transformers import AutoTokenizer

    from penstock.cli.demos.chat_model import ChatModel, Trainer

    torch.manual_seed(0)
    torch.set_num_threads(1)
    options = feed.config.options["chat"]
    assert isinstance(options, ChatOptions)
    tokenizer: Any = AutoTokenizer.from_pretrained(options.tokenizer)
    image = int(tokenizer.convert_tokens_to_ids(TOKENS["image_start"]))
    audio = int(tokenizer.convert_tokens_to_ids(TOKENS["audio_start"]))
    return Trainer(ChatModel(len(tokenizer), LENGTH, image, audio, IMAGE_SIZE))


def _train(feed: Feed, console: Terminal) -> tuple[list[str], "Trainer", dict[str, Any]]:
    """Train without interruption. Returns digests of the batches, the model, and what was saved in between."""
    trainer = _new_trainer(feed)
    digests: list[str] = []
    results: list[tuple[float, float]] = []
    saved: dict[str, Any] = {}
    with feed.loader(threads=2) as loader, Progress("training") as progress:
        for step, batch in enumerate(progress.track(islice(loader, STEPS), STEPS)):
            if step == STOP:
                saved = copy.deepcopy(trainer.state())
            results.append(trainer.step(batch))
            digests.append(_digest(batch))
    first = np.mean(results[:10], axis=0)
    last = np.mean(results[-10:], axis=0)
    heading(console, "\n3. Train:", f"a transformer with two layers, {STEPS} steps without interruption")
    console.print(
        f"Loss {first[0]:.2f} → {last[0]:.2f}; trained tokens predicted right {first[1]:.0%} → {last[1]:.0%}."
    )
    return digests, trainer, saved


def _resume(
    config: Path, state: dict[str, Any], whole: list[str], trainer: "Trainer", saved: dict[str, Any], console: Terminal
) -> None:
    heading(console, "\n5. Resume", "from that state, with other workers and ranks:")
    feed = penstock.open(config, rank=0, world=1)
    resumed = _new_trainer(feed)
    resumed.load(saved)
    digests = []
    with feed.loader(workers=2) as loader:
        loader.load_state_dict(state)
        for batch in islice(loader, STEPS - STOP):
            resumed.step(batch)
            digests.append(_digest(batch))
    verdict(console, digests == whole[STOP:], f"2 worker processes: batches {STOP}–{STEPS - 1}, bit for bit")
    from penstock.cli.demos.chat_model import equal_weights

    verdict(console, equal_weights(resumed.model, trainer.model), "the weights of the model, bit for bit")
    ranks = [_rank_texts(config, state, rank, 2) for rank in range(2)]
    together = [first + second for first, second in zip(*ranks, strict=True)]
    alone = _texts(penstock.open(config, rank=0, world=1).batch(step) for step in range(STOP, STOP + 5))
    verdict(console, together == alone, "2 ranks: the same global batches")


def _rank_texts(config: Path, state: dict[str, Any], rank: int, world: int) -> list[list[str]]:
    with penstock.open(config, rank=rank, world=world).loader(threads=1) as loader:
        loader.load_state_dict(state)
        return _texts(islice(loader, 5))


def _texts(batches: Iterable[dict[str, Any]]) -> list[list[str]]:
    return [list(batch["text"]) for batch in batches]
