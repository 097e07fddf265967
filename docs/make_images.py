"""Writes the pictures of the tutorials from real runs. Needs matplotlib, and a folder in which the tutorials were done.

Run it in that folder. The picture of robot frames is the one that ``penstock demo robot`` makes.
"""

import io
import re
import shutil
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image
from rich.console import Console
from rich.text import Text

import penstock

matplotlib.use("Agg")
from matplotlib import pyplot

IMAGES = Path(__file__).parent / "images"
CLIPS = 4


def draw_speech() -> None:
    """Waveforms of a batch, and their features below."""
    batch = penstock.open("run.yaml").batch(3)
    figure, rows = pyplot.subplots(2, CLIPS, figsize=(11, 4), sharex="row", layout="constrained")
    for column in range(CLIPS):
        wave = batch["wav"][column].numpy()
        feats = batch["feats"][column, 0].numpy().reshape(-1, 80)
        rows[0, column].plot(np.arange(len(wave)) / 16_000, wave, linewidth=0.4, color="#3949ab")
        rows[0, column].set_title(batch["ids"][column], fontsize=10)
        rows[0, column].set_ylim(-0.7, 0.7)
        rows[1, column].imshow(
            feats.T, origin="lower", aspect="auto", cmap="magma", vmin=-2.5, vmax=2.5, extent=(0, 2, 0, 80)
        )
        rows[1, column].set_xlabel("seconds")
    rows[0, 0].set_ylabel("wav")
    rows[1, 0].set_ylabel("feats (mel bins)")
    figure.savefig(IMAGES / "speech-batch.png", dpi=90)
    with Image.open(IMAGES / "speech-batch.png") as picture:
        picture.convert("RGB").quantize(96).save(IMAGES / "speech-batch.png", optimize=True)


def draw_terminal(name: str, text: Text, title: str) -> None:
    """A terminal with coloured text, as SVG."""
    console = Console(record=True, width=92, file=io.StringIO(), force_terminal=True)
    console.print(text)
    svg = console.export_svg(title=title)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts of another server
    (IMAGES / name).write_text(svg.replace("Fira Code, monospace", "monospace"))


def draw_chat() -> None:
    """Two samples of the replayed batch: a tool call, and questions about images."""
    replayed = Path("seen/step-3/rank-0")
    packs = sorted(path.read_text() for path in replayed.glob("*.ansi"))
    calls = next(pack for pack in packs if "<|call|>" in pack)
    calls = calls[calls.index("<|user|>") :]
    shapes = next(pack for pack in packs if "<|image|>" in pack).splitlines()[:3]
    sums = next(pack for pack in packs if "plus" in pack).splitlines()[:2]
    text = "\n\n".join([calls.strip(), *shapes, *sums])
    draw_terminal("chat-trained.svg", Text.from_ansi(text), "cat seen/step-3/rank-0/*.ansi")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    draw_speech()
    draw_chat()
    shutil.copy("demo-data/robot/frames.png", IMAGES / "robot-frames.png")
