"""Runs a page of docs/moves/ in the working directory: makes its data, then runs its blocks in order.

``python -m tests.frameworks.moves PAGE`` writes to done.json what the blocks passed to ``train``, by heading. It is a
process of its own because the other loaders lie beside the environment (see moves.txt): torchvision, which Mosaic
Streaming imports, must not be seen by other tests.
"""

import hashlib
import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from tests.cli.commands import run
from tests.robots import write_robot

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"
PAGES = ROOT / "docs" / "moves"
BLOCK = re.compile(r"^## (.*?)$|^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAMPLES = 64
CLIPS = 32


def images() -> Iterator[dict[str, Any]]:
    """Parts of three photographs as small JPEG files."""
    photographs = [Image.open(DATA / "chat" / "media" / f"{number}.jpg").convert("RGB") for number in (1, 2, 3)]
    for number in range(SAMPLES):
        file = io.BytesIO()
        left, top = 10 * (number % 8), 10 * (number // 8)
        photographs[number % 3].crop((left, top, left + 64, top + 48)).save(file, "JPEG")
        yield {"id": f"photo{number:03}", "image": file.getvalue(), "label": number % 7}


def texts() -> list[str]:
    """Sentences of real records, each with a number so that none comes twice."""
    records = json.loads((DATA / "chat" / "alpaca_en_demo.json").read_text())
    sentences = [each for record in records for each in re.split(r"(?<=[.!?])\s+", record["output"]) if len(each) > 9]
    return [f"{number}: {sentences[number % len(sentences)]}" for number in range(SAMPLES)]


def make_webdataset() -> None:
    import webdataset as wds

    Path("shards").mkdir()
    with wds.ShardWriter("shards/train-%06d.tar", maxcount=16, verbose=0) as shards:
        for sample in images():
            shards.write({"__key__": sample["id"], "jpg": sample["image"], "cls": sample["label"]})


def make_mds() -> None:
    from streaming import MDSWriter

    save_tokenizer()
    with MDSWriter(out="mds", columns={"text": "str"}, compression="zstd", size_limit=1 << 10) as writer:
        for text in texts():
            writer.write({"text": text})


def make_chunks() -> None:
    from litdata.streaming import Cache

    Path("chunks").mkdir()
    cache = Cache("chunks", chunk_size=10)  # as litdata.optimize does in processes of its own
    for number, sample in enumerate(images()):
        cache[number] = sample
    cache.done()
    cache.merge()


def make_conversations() -> None:
    save_tokenizer()
    Path("chat").mkdir()
    for number in range(4):
        rows = [
            {"messages": [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": text}]}
            for text in texts()[number::4]
        ]
        Path(f"chat/{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_shar() -> None:
    from lhotse import CutSet, Recording, SupervisionSegment

    files = [DATA / "speech" / name for name in ("libri-1088-134315-0000.wav", "2412-153948-0001.flac")]
    cuts = CutSet.from_cuts(Recording.from_file(file).to_cut() for file in files)
    clips = cuts.cut_into_windows(0.8).to_eager().subset(first=CLIPS)
    for clip in clips:
        clip.supervisions = [SupervisionSegment(clip.id, clip.recording_id, 0, clip.duration, text=said(clip.id))]
    Path("shar").mkdir()
    clips.to_shar("shar", fields={"recording": "flac"}, shard_size=8)


def said(clip: str) -> str:
    return f"The words of {clip}."


def save_tokenizer() -> None:
    from tests.text.made_tokenizers import byte_level

    template = (DATA / "chat" / "templates" / "qwen2_5.jinja").read_text()
    byte_level(chat_template=template).save_pretrained("tokenizer")


def make_episodes() -> None:
    write_robot(Path("arm"), [20, 16, 24, 20], ["observation.images.top"], fps=10)


MAKERS: dict[str, Callable[[], None]] = {
    "webdataset": make_webdataset,
    "mosaic-streaming": make_mds,
    "litdata": make_chunks,
    "datasets": make_conversations,
    "lhotse": make_shar,
    "lerobot": make_episodes,  # run by test_lerobot.py
}


class Trained:
    """Stands for the training step of a page: remembers the samples that it is given."""

    def __init__(self) -> None:
        self.samples: list[list[Any]] = []

    def __call__(self, *columns: Any) -> None:
        for row in zip(*columns, strict=True):
            *values, last = row
            if values and isinstance(values[-1], torch.Tensor):  # a padded waveform before its length
                values[-1] = values[-1][:last]
            self.samples.append([plain(value) for value in (*values, last)])


def plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes, pictures and arrays as a digest."""
    if isinstance(value, Image.Image):
        value = value.tobytes()
    if isinstance(value, torch.Tensor):
        value = value.numpy().tobytes() if value.ndim else value.item()
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield heading, language and text of each block."""
    heading = ""
    for title, language, block in BLOCK.findall((PAGES / f"{page}.md").read_text()):
        heading = title or heading
        if block:
            yield heading, language, block


def main(page: str) -> None:
    MAKERS[page]()
    done: dict[str, list[list[Any]]] = {}
    for heading, language, block in blocks(page):
        if language == "console":
            result = run(*(part for each in shlex.split(block)[1:] for part in expanded(each)))
            assert result.exit_code == 0, result.output
        elif named := re.match(r"# (\w+\.py)\n", block):
            Path(named[1]).write_text(block)
        else:
            trained = Trained()
            exec(block, {"train": trained})
            done.setdefault(heading, []).extend(trained.samples)
    Path("done.json").write_text(json.dumps(done))


def expanded(argument: str) -> list[str]:
    """Expand a pattern as the shell does."""
    return sorted(map(str, Path().glob(argument))) if "*" in argument else [argument]


if __name__ == "__main__":
    sys.path[:0] = ["", str(ROOT / "benchmarks")]
    import torchvision_schemas

    torchvision_schemas.declare()
    main(sys.argv[1])
