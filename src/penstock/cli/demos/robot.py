"""``penstock demo robot``: a robot dataset is written, streamed, stopped and resumed, and its frames are shown."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import penstock
from penstock.cli.console import Terminal
from penstock.cli.demos.printing import heading, show_commands, show_state, verdict
from penstock.cli.demos.robot_data import CAMERAS, FPS, Pixels, make_robot_data
from penstock.cli.progress import Progress
from penstock.feed import Feed
from penstock.manifest.publish import errors_naming
from penstock.recipes.extras import require_packages
from penstock.recipes.robot import PACKAGES

CONFIG = """\
# The run that `penstock demo robot` makes. Try:  penstock plan {name} --steps 40:41
recipe: robot
seed: 7
global_batch_size: 16
store: dataset
pool: 12                       # episodes from which frames are drawn at a time
robot:
  delta_timestamps:            # seconds before and after the drawn frame
    observation.images.top: [-0.4, -0.2, 0.0]
    action: [0.0, 0.1, 0.2, 0.3]
"""
EPISODES = 36
STEPS = 60
STOP = 30
SHEET_SAMPLES = 8
LABEL_WIDTH = 48
LABEL_HEIGHT = 16

Batch = dict[str, Any]


def show(folder: Path, console: Terminal) -> None:
    """Write a dataset, stream it, stop and resume, and save a contact sheet of frames.

    Args:
        folder: Folder for the data.
        console: Console to print to.
    """
    require_packages("penstock demo robot", "robot", *PACKAGES)
    from penstock.media.image.file import png_bytes

    config = _prepare(folder, console)
    feed = penstock.open(config, rank=0, world=1)
    whole = _stream(feed, console)
    state = feed.state(STOP)
    show_state(console, f"\n3. Stop after {STOP} batches.", state)
    _resume(config, state, whole, console)
    sheet = folder / "frames.png"
    with errors_naming(sheet):
        deltas = feed.recipes["robot"].needs.deltas
        sheet.write_bytes(png_bytes(contact_sheet(feed.batch(STOP), SHEET_SAMPLES, deltas)))
    heading(console, "\n5. Look:", f"{SHEET_SAMPLES} samples of batch {STOP}, one per row, as EPISODE:FRAME: {sheet}")
    console.print("The camera top has a window of 3 frames. Those with a red border lie outside of the episode.")
    show_commands(
        console,
        "\nAsk the plan, offline:",
        f"plan {config} --steps 40:41",
        f"where {config} 3:17 --epochs 2",
        f"replay {config} --steps 40 --html page.html",
        f"bench {config}",
    )


def _prepare(folder: Path, console: Terminal) -> Path:
    config = folder / "demo.yaml"
    data = folder / "dataset"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with Progress("drawing episodes") as progress:
            for _ in progress.track(make_robot_data(data, EPISODES), EPISODES):
                pass
        with errors_naming(config):
            config.write_text(CONFIG.format(name=config))
    files = [path for path in data.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    what = f"{EPISODES} episodes at {FPS} fps with {len(CAMERAS)} cameras, in {len(files)} files, {size:.1f} MB"
    heading(console, "1. Data:", f"a LeRobotDataset v3.0, {what}, in {data}/")
    return config


def _stream(feed: Feed, console: Terminal) -> list[str]:
    digests: list[str] = []
    with feed.loader(threads=2) as loader, Progress("streaming") as progress:
        for batch in progress.track(islice(loader, STEPS), STEPS):
            digests.append(_digest([batch]))
    heading(console, "\n2. Stream:", f"{STEPS} batches of {feed.config.global_batch_size}. The last one holds")
    table = Table("key", "type", "shape")
    for key, value in batch.items():
        if _is_array(value):
            table.add_row(key, str(value.dtype), " × ".join(map(str, value.shape)))
    console.print(table)
    return digests


def _resume(config: Path, state: dict[str, Any], whole: list[str], console: Terminal) -> None:
    heading(console, "\n4. Resume", "from that state, with other workers and ranks:")
    with penstock.open(config, rank=0, world=1).loader(workers=2) as loader:
        loader.load_state_dict(state)
        same = [_digest([batch]) for batch in islice(loader, STEPS - STOP)] == whole[STOP:]
    verdict(console, same, f"1 rank, 2 worker processes: batches {STOP}–{STEPS - 1}, every value and pixel")
    feeds = [penstock.open(config, rank=rank, world=2) for rank in range(2)]
    joined = [_digest([feed.batch(step) for feed in feeds]) for step in range(STOP, STEPS)]
    verdict(console, joined == whole[STOP:], "2 ranks: together the same global batches")


def _is_array(value: object) -> bool:
    import torch

    return isinstance(value, np.ndarray | torch.Tensor)


def _digest(batches: list[Batch]) -> str:
    """Return a digest of the arrays of a batch, which ranks may have made in parts."""
    arrays = {key: value for key, value in batches[0].items() if _is_array(value)}
    found = hashlib.sha256()
    for key in arrays:
        found.update(np.concatenate([np.asarray(batch[key]) for batch in batches]).tobytes())
    return found.hexdigest()


def contact_sheet(batch: Batch, samples: int, deltas: Mapping[str, Sequence[float]]) -> Pixels:
    """Return frames of a batch as one image, with labels.

    Args:
        batch: Batch of the feed.
        samples: Number of rows, one per sample. Padded frames have a red border.
        deltas: Window of each camera, in seconds. Each frame is a column.
    """
    rows = []
    for sample in range(samples):
        row = []
        for camera in CAMERAS:
            frames = np.asarray(batch[camera][sample])
            frames = frames.reshape(-1, *frames.shape[-3:])
            outside = (
                np.asarray(batch[f"{camera}_is_pad"][sample]) if f"{camera}_is_pad" in batch else np.zeros(1, bool)
            )
            row += [_framed(np.moveaxis(frame, 0, -1), bool(pad)) for frame, pad in zip(frames, outside, strict=True)]
        height = row[0].shape[0]
        rows.append(np.concatenate([_label(batch["ids"][sample], LABEL_WIDTH, height), *row], axis=1))
    times = [(camera.rpartition(".")[2], delta) for camera in CAMERAS for delta in deltas.get(camera, (0.0,))]
    heads = [
        _label(f"{name} {delta:+.1f} s", frame.shape[1], LABEL_HEIGHT)
        for (name, delta), frame in zip(times, row, strict=True)
    ]
    return np.concatenate([np.concatenate([_label("", LABEL_WIDTH, LABEL_HEIGHT), *heads], axis=1), *rows])


def _label(text: str, width: int, height: int) -> Pixels:
    """Return text on white."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((4, height // 2), text, fill="black", anchor="lm")
    return np.asarray(image)


def _framed(pixels: Pixels, outside: bool) -> Pixels:
    height, width, channels = pixels.shape
    framed = np.full((height + 4, width + 4, channels), 255, np.uint8)
    if outside:
        framed[:] = (220, 30, 30)
    framed[2:-2, 2:-2] = pixels
    return framed
