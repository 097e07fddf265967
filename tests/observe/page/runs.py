"""One small run per recipe, and one of all: with text that a browser would run if it were not escaped, and bad data."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from penstock.curate.robot.writer import write_dataset
from penstock.media.audio.wav import wav_bytes
from tests.readers.tar.archives import write_tar
from tests.recipes.chat_runs import TOKENIZER
from tests.robots import FPS, ROWS, edit_table, episode
from tests.text.rendering import TOKENS

HOSTILE = "<script>document.title='run'</script><img src='http://127.0.0.1:9/x' onerror=\"document.title='run'\">"
HOSTILE_NAME = "<script>document.title='run'<img onerror='x'>\"&"
RATE = 16_000


def write_raw(folder: Path) -> dict[str, Any]:
    """Samples with a picture, a text and values. The filelist also names one that its shard does not have."""
    picture = io.BytesIO()
    Image.new("RGB", (640, 400), (200, 60, 20)).save(picture, "JPEG")
    lines = []
    for number in range(2):
        names = [f"{HOSTILE_NAME}{place}" if place % 2 else f"{number}_{place}" for place in range(8)]
        files = [
            (f"{name}.{ending}", data)
            for name in names
            for ending, data in (
                ("jpg", picture.getvalue()),
                ("txt", f"{name} {HOSTILE}".encode()),
                ("json", json.dumps({"speaker": HOSTILE, "number": number}).encode()),
                ("bin", b"\x00\xff"),
            )
        ]
        write_tar(folder / f"shard-{number}.tar", files)
        lines += [f"shard-{number}.tar\t{name}\tfiles{number}\t1.5\n" for name in [*names, "missing"]]
    (folder / "train.tsv").write_text("".join(lines))
    return {"filelist": str(folder / "train.tsv"), "store": str(folder)}


def write_speech(folder: Path) -> dict[str, Any]:
    """Clips of half a second to two seconds, one of which is no sound."""
    lines = []
    for number in range(2):
        files = []
        for place in range(6):
            times = np.arange(RATE // 2 + 4_000 * place) / RATE
            tone = 0.5 * np.sin(2 * np.pi * (300 + 100 * place) * times).astype(np.float32)
            files.append((f"clip-{number}-{place}.wav", wav_bytes(tone, RATE)))
        files[2] = (files[2][0], b"no sound")
        write_tar(folder / f"clips-{number}.tar", files)
        lines += [f"clips-{number}.tar\t{name[:-4]}\tvoice{number}\t1.5\n" for name, _ in files]
    (folder / "train.tsv").write_text("".join(lines))
    return {"filelist": str(folder / "train.tsv"), "store": str(folder)}


def write_chat(folder: Path) -> list[dict[str, Any]]:
    """Two files of questions about pictures, one picture of which is missing."""
    folder.mkdir(exist_ok=True)
    for number in range(12):
        if number != 5:
            Image.new("RGB", (20 + 7 * number, 30), (number * 9, 77, 5)).save(folder / f"{number}.png")
    for name in ("talk", "more<script>"):
        lines = [
            {
                "messages": [
                    {"role": "user", "content": f"<image>What is {number} in हिन्दी? {HOSTILE if number % 3 else ''}"},
                    {"role": "assistant", "content": f"It is {number} 🦜. {HOSTILE if number % 2 else 'Really.'}"},
                ],
                "images": [f"{number}.png"],
            }
            for number in range(12)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return [
        {"name": name, "recipe": "chat", "dtype": "vision", "path": str(folder / f"{name}.jsonl")}
        for name in ("talk", "more<script>")
    ]


def write_robots(folder: Path) -> list[dict[str, Any]]:
    """Two datasets with a camera. One value is missing in each."""
    for name in ("left", "right"):
        episodes = [episode(number, 9, ["top"], task=f"reach {number} {HOSTILE}") for number in range(3)]
        write_dataset(folder / name, episodes, fps=FPS)
        edit_table(folder / name, ROWS, {"observation.state": {4: None}})
    return [{"name": name, "recipe": "robot", "store": str(folder / name)} for name in ("left", "right")]


SECTIONS: dict[str, Any] = {
    "speech": {"crop": "1s", "features": False},
    "chat": {"tokens": TOKENS, "max_length": 512, "image_size": 80},
    "robot": {"delta_timestamps": {"action": [-1 / FPS, 0.0, 1 / FPS], "top": [-2 / FPS, 0.0]}},
}


def write_config(folder: Path, recipes: list[str], **options: Any) -> Path:
    """Write the data of some recipes and the config of a run over them.

    Args:
        folder: Folder for both.
        recipes: Names of recipes.
        **options: Keys of the config; ``chat`` adds to the section.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sections = {name: {**SECTIONS.get(name, {}), **options.pop(name, {})} for name in recipes if name in SECTIONS}
    sources: list[dict[str, Any]] = []
    if "raw" in recipes:
        sources.append({"name": "files", "recipe": "raw", **write_raw(folder / "raw")})
    if "speech" in recipes:
        sources.append({"name": "voices", "recipe": "speech", **write_speech(folder / "speech")})
    if "chat" in recipes:
        sources += write_chat(folder / "chat")
        TOKENIZER.save_pretrained(folder / "tokenizer")
        sections["chat"] = {"tokenizer": str(folder / "tokenizer"), **sections["chat"]}
    if "robot" in recipes:
        sources += write_robots(folder / "robot")
    run = {
        "recipe": recipes[0],
        "seed": 5,
        **({} if "batch" in options else {"global_batch_size": 4}),
        "pool": 2,
        "max_bad": 1.0,
        "mixture": {"weights": "equal"},
        "cache": {"dir": str(folder / "cache"), "size": "1GB"},
        "sources": sources,
        **sections,
        **options,
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run))
    return path
