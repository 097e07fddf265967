"""Chat data that others wrote, through the native face: every record of every file, with its media, from a folder."""

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoTokenizer

import penstock
from penstock.text.labels import Encoded, Encoder
from penstock.text.rendered import Rendered
from tests.cli.commands import lines_of, run
from tests.e2e.chat_golden import GOLDEN, STD
from tests.e2e.chat_run import BATCH_KEYS, MODALITIES, chat_run, copy_files, digest, source
from tests.text.formats.test_demo_files import FILES
from tests.text.rendering import TOKENS

pytestmark = pytest.mark.long

QUICK = [name for name in FILES if name != "mllm_video_demo.json"]  # decoding videos takes most of the time
UINT8_STEP = 1 / (255 * STD.min())  # after the normalisation
# Resizing may begin with rows or with columns, and FFmpeg's conversions differ between machines.
CLOSE = {"image": 8 * UINT8_STEP, "video": 8 * UINT8_STEP, "audio": 2e-3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chat")
    copy_files(made)
    return made


@pytest.fixture(scope="module")
def golden() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(GOLDEN.read_text())
    return found


def trained(text: str) -> str:
    """What the assistant says in a text, with its end tokens."""
    turns = text.split(TOKENS["assistant_start"])[1:]
    end = TOKENS["assistant_end"]
    return "".join(turn.partition(end)[0] + end for turn in turns)


def check_media(batch: dict[str, Any], kind: str, places: list[int], rows: list[list[dict[str, Any]]]) -> None:
    """Compare the media of a batch with those that some of its rows must have, in order."""
    wanted = [medium for row in rows for medium in row]
    found = batch[BATCH_KEYS[kind]]
    assert batch[f"{kind}_rows"].tolist() == [place for place, row in zip(places, rows, strict=True) for _ in row]
    assert len(found) == len(wanted)
    for number, (array, expected) in enumerate(zip(found.numpy(), wanted, strict=True)):
        if kind == "audio":
            length = int(batch["audio_lengths"][number])
            assert not array[length:].any()
            array = array[:length]
        assert list(array.shape) == expected["shape"]
        values = array.reshape(-1)[np.linspace(0, array.size - 1, 11, dtype=int)]
        np.testing.assert_allclose(values, expected["values"], atol=CLOSE[kind])
        assert abs(array.mean() - expected["mean"]) < CLOSE[kind] / 4
        assert abs(array.std() - expected["std"]) < CLOSE[kind] / 4


@pytest.mark.parametrize("name", FILES)
def test_every_record_comes_with_its_text_labels_and_media(
    folder: Path, golden: dict[str, list[dict[str, Any]]], name: str
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    feed = penstock.open(chat_run(folder, [source(name, folder)], passes=1, shuffle=False))
    made = []
    for step in range(len(feed)):
        batch = feed.batch(step)
        assert batch["bad"] == []
        ours = golden[name][4 * step : 4 * step + 4]
        places = [number * 4 // len(ours) for number in range(len(ours))]  # those of the last batch are spread
        assert np.flatnonzero(batch["valid"]).tolist() == places
        assert batch["text"] == [entry["text"] for entry in ours]
        for index, entry in zip(places, ours, strict=True):
            ids = batch["input_ids"][index][batch["attention_mask"][index] == 1]
            labels = batch["labels"][index]
            assert tokenizer.decode(ids) == entry["text"]
            assert tokenizer.decode(labels[labels != -100]) == trained(entry["text"])
        if name in MODALITIES:
            kind = MODALITIES[name]
            check_media(batch, kind, places, [entry[kind] for entry in ours])
        made += [batch["ids"][place] for place in places]
    assert made == [str(number) for number in range(FILES[name][1])]


def everything(folder: Path, names: Iterable[str] = FILES, **options: Any) -> dict[str, Any]:
    return chat_run(folder, [source(name, folder) for name in names], mixture={"weights": "equal"}, **options)


def test_packs_hold_every_record_once_per_epoch(folder: Path, golden: dict[str, list[dict[str, Any]]]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    feed = penstock.open(everything(folder, passes=1, chat={"pack": True}))
    texts = []
    media = dict.fromkeys(BATCH_KEYS, 0)
    for batch in map(feed.batch, range(len(feed))):
        assert batch["bad"] == []
        for ids, sequences in zip(batch["input_ids"], batch["sequence_ids"], strict=True):
            texts += [tokenizer.decode(ids[sequences == number]) for number in range(1, int(sequences.max()) + 1)]
        for kind, key in BATCH_KEYS.items():
            media[kind] += len(batch.get(key, ()))
    assert sorted(texts) == sorted(entry["text"] for name in FILES for entry in golden[name])
    assert media == {"image": 8, "video": 3, "audio": 3}


@pytest.mark.parametrize(("pack", "stop"), [(False, 5), (True, 7)])
def test_a_resumed_run_goes_on_with_the_same_batches(folder: Path, pack: bool, stop: int) -> None:
    config = everything(folder, QUICK, chat={"pack": pack})
    feed = penstock.open(config)
    whole = [digest(feed.batch(step)) for step in range(12)]
    with penstock.open(config).loader(threads=1) as loader:
        assert [digest(batch) for batch in islice(loader, stop)] == whole[:stop]
        state = loader.state_dict()
    with penstock.open(config).loader(threads=2) as loader:
        loader.load_state_dict(state)
        assert [digest(batch) for batch in islice(loader, 12 - stop)] == whole[stop:]


def test_the_commands_show_the_run(folder: Path) -> None:
    keys = everything(folder, chat={"pack": True})
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(keys))
    indexed = run("index", path, "--workers", 0)
    assert indexed.exit_code == 0, indexed.output
    for name, (_, records) in FILES.items():
        assert f"{Path(name).stem}: {records} items of {records} records in 1 file" in indexed.stdout
    assert run("mix", path).exit_code == 0
    planned = lines_of(run("plan", path, "--steps", "0:3"))
    assert len(planned) == 12
    found = lines_of(run("where", path, "mllm_demo.json:3"))
    assert len(found) == 1
    step = found[0].split("\t")[2]
    replayed = run("replay", path, "--steps", step, "-o", folder / "seen")
    assert replayed.exit_code == 0, replayed.output
    shown = [file.read_text() for file in (folder / "seen").rglob("*.txt")]
    assert any(TOKENS["image_start"] in text for text in shown)


def test_tensors_are_those_of_the_trainer(folder: Path) -> None:
    batch = penstock.open(everything(folder)).batch(0)
    for key in ("input_ids", "labels", "attention_mask"):
        assert batch[key].dtype == torch.int64 and batch[key].shape == batch["input_ids"].shape


@pytest.mark.parametrize("pack", [False, True])
def test_kept_tokens_give_the_same_batches_and_no_text_is_tokenized_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: bool
) -> None:
    keys = everything(folder, QUICK, chat={"pack": pack})
    feed = penstock.open(keys)
    whole = [digest(feed.batch(step)) for step in range(6)]
    keys |= {"cache": {"dir": str(tmp_path / "cache"), "size": "1GB"}}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(keys))
    done = run("index", path, "--tokens", "--workers", 0)
    assert done.exit_code == 0, done.output

    def nothing(encoder: Encoder, rendered: Sequence[Rendered]) -> list[Encoded]:
        assert not rendered
        return []

    monkeypatch.setattr(Encoder, "encode", nothing)
    again = penstock.open(keys)
    assert [digest(again.batch(step)) for step in range(6)] == whole
