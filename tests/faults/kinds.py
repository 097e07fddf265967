"""The data of the fault campaign, one kind per pipeline: files, the keys of a run, and what each item must be."""

import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import penstock
from penstock.curate.robot.writer import Layout
from penstock.media.video.encoding import Encoding
from tests.faults.trainer import samples
from tests.robots import shown, shown_number, write_robot
from tests.shards import content, write_shards
from tests.text.made_tokenizers import byte_level
from tests.text.rendering import TOKENS

SIZES = {"hindi": [12, 9, 11, 10, 12], "odia": [8, 10, 9]}
BYTES_EACH = 30_000
RECORDS = 150
CAMERA = "top"
EPISODES = [14, 11, 16, 9, 13, 12]


@dataclass(frozen=True)
class Kind:
    """Data for one pipeline.

    Attributes:
        folder: holds the undamaged files.
        names: of the files, relative to the folder.
        keys: the keys of a run that reads them from a store, with the options of a remote one.
        truth: the digest of each item of undamaged data, by ``source/id``.
    """

    name: str
    folder: Path
    names: list[str]
    keys: Callable[[str, dict[str, Any]], dict[str, Any]]
    truth: dict[str, str]

    def undamaged(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


def raw(folder: Path) -> Kind:
    folder.mkdir(parents=True)
    write_shards(folder, SIZES, bytes_each=BYTES_EACH)
    names = sorted(path.name for path in folder.glob("*.tar"))

    def keys(store: str, remote: dict[str, Any]) -> dict[str, Any]:
        manifest = {"manifest": str(folder / "index")}
        return {**manifest, "store": store, "mixture": {"weights": "equal"}, **({"remote": remote} if remote else {})}

    lines = [line.split("\t") for line in (folder / "train.tsv").read_text().splitlines()]
    truth = {f"{line[2]}/{line[1]}": content(line[0], line[1], BYTES_EACH) for line in lines}
    return Kind(
        "raw", folder, names, keys, {name: hashlib.sha256(data).hexdigest()[:16] for name, data in truth.items()}
    )


def chat(folder: Path) -> Kind:
    folder.mkdir(parents=True)
    for name in ("a.jsonl", "b.jsonl"):
        (folder / name).write_text("".join(json.dumps(_talk(name, number)) + "\n" for number in range(RECORDS)))
    tokenizer = byte_level()
    tokenizer.add_special_tokens({"additional_special_tokens": list(TOKENS.values())})
    tokenizer.save_pretrained(folder / "tokenizer")

    def keys(store: str, remote: dict[str, Any]) -> dict[str, Any]:
        more = {"remote": remote} if remote else {}
        sources = [{"name": name, "dtype": "conversation", "path": f"{store}/{name}.jsonl", **more} for name in "ab"]
        section = {"tokenizer": str(folder / "tokenizer"), "tokens": TOKENS, "max_length": 512}
        return {"recipe": "chat", "sources": sources, "chat": section}

    truth = {}
    for batch in _whole(folder, keys(str(folder), {})):
        truth |= dict(samples(batch))
        for source, id, text in zip(*(batch[key] for key in ("sources", "ids", "text")), strict=True):
            assert f"number {id} of {source}.jsonl?" in text
    return Kind("chat", folder, ["a.jsonl", "b.jsonl"], keys, truth)


def _talk(name: str, number: int) -> dict[str, Any]:
    asked = {"role": "user", "content": f"What is number {number} of {name}?"}
    said = {"role": "assistant", "content": f"It is {number}." + " Really." * (number % 9)}
    return {"messages": [asked, said]}


def robot(folder: Path) -> Kind:
    layout = Layout(episodes_per_video_file=3, encoding=Encoding("h264", 6))
    write_robot(folder, EPISODES, [CAMERA], layout=layout)
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.is_file())

    def keys(store: str, remote: dict[str, Any]) -> dict[str, Any]:
        return {
            "recipe": "robot",
            "sources": [{"name": "robot", "store": store, **({"remote": remote} if remote else {})}],
        }

    truth = {}
    for batch in _whole(folder, keys(str(folder), {})):
        truth |= dict(samples(batch))
        for id, frame in zip(batch["ids"], batch[CAMERA], strict=True):
            assert shown(frame) == shown_number(0, *map(int, id.split(":")))
    return Kind("robot", folder, names, keys, truth)


def _whole(folder: Path, keys: dict[str, Any]) -> list[dict[str, Any]]:
    """All batches of one pass over undamaged data."""
    cache = {"dir": str(folder.with_name(f"{folder.name}-truth")), "size": "100MB"}
    with closing(penstock.open({**keys, "cache": cache, "passes": 1, "global_batch_size": 1}, rank=0, world=1)) as feed:
        return [feed.batch(step) for step in range(len(feed))]
