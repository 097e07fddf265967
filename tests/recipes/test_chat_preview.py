"""What ``penstock replay`` shows of chat data: texts with the trained part in colour, and media as files."""

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from penstock.cli import app
from penstock.recipes.file_panels import panels_of
from penstock.recipes.panels import TextPanel
from tests.recipes.chat_runs import TOKENIZER, question, run, source, write_questions, write_records
from tests.recipes.processors import FAMILIES
from tests.text.rendering import TOKENS

GREEN = "\x1b[32m"
PLAIN = "\x1b[0m"


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_questions(tmp_path_factory.mktemp("questions"))


def files(batch: dict[str, Any], feed: Any, index: int) -> dict[str, bytes]:
    return dict(feed.preview("chat", batch, index))


@pytest.mark.parametrize("options", [{}, {"padding": "none"}, {"pack": True}, {"pack": True, "flat": True}], ids=str)
def test_the_trained_part_of_every_row_is_green(questions: Path, options: dict[str, Any]) -> None:
    feed = run(questions, **options)
    batch = feed.batch(0)
    for index, ids in enumerate(batch["ids"]):
        numbers = [int(id) for id in (ids if isinstance(ids, list) else [ids])]
        seen = files(batch, feed, index)
        answers = [question(number)["messages"][1]["content"] + TOKENS["assistant_end"] for number in numbers]
        shown = seen["ansi"].decode()
        assert [each.partition(PLAIN)[0] for each in shown.split(GREEN)[1:]] == answers
        texts = [batch["text"][n] for n in np.flatnonzero(batch["sample_rows"] == index)]
        assert shown.replace(GREEN, "").replace(PLAIN, "") == "\n".join(texts)
        assert seen["txt"].decode() == "\n".join(texts)
        assert [name for name in seen if name.endswith("png")] == [f"image{n}.png" for n in range(len(numbers))]


def test_indented_texts_are_shown_as_they_are_and_other_runs_of_a_token_by_their_number(tmp_path: Path) -> None:
    code = "{\n" + 12 * " " + "a\n" + 12 * " " + "b\n" + 12 * "-"
    turns = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": code}]
    feed = run([source(write_records(tmp_path, [{"messages": turns}] * 4), "conversation")])
    batch = feed.batch(0)
    shown = files(batch, feed, 0)["ansi"].decode()
    [panel] = panels_of(feed.recipes["chat"], batch, 0)
    assert isinstance(panel, TextPanel)
    for text in (shown, "".join(piece.text for piece in panel.pieces)):
        assert f"{code.rstrip('-')}-×12" in text


def test_texts_are_shown_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "A boat."}]
    feed = run([source(write_records(tmp_path, [{"messages": turns}] * 4), "conversation")])
    batch = feed.batch(0)
    monkeypatch.setitem(sys.modules, "penstock.media.image.file", None)  # as if Pillow were not installed
    assert set(files(batch, feed, 0)) == {"txt", "ansi"}


def test_images_are_seen_as_they_were_before_they_were_normalised(questions: Path) -> None:
    processors: dict[str, dict[str, Any]] = {
        "ours": {},
        **{name: {"processor": make(), "max_length": 160} for name, make in FAMILIES.items()},
    }
    for name, options in processors.items():
        feed = run(questions, **options)
        batch = feed.batch(0)
        for index, id in enumerate(batch["ids"]):
            picture = Image.open(BytesIO(files(batch, feed, index)["image0.png"]))
            pixels = np.asarray(picture)
            assert np.abs(pixels.astype(int) - [int(id) * 9 % 256, 77, 5]).max() <= 1, name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_shows_its_own_images_also_after_a_row_with_two(tmp_path: Path, family: str) -> None:
    write_questions(tmp_path, 3)
    both = {**question(0), "images": ["0.png", "1.png"]}
    both["messages"][0]["content"] = "<image> or <image>?"
    path = write_records(tmp_path, [both, question(2)])
    feed = run(path, processor=FAMILIES[family](), max_length=160, batch_size=2, shuffle=False)
    batch = feed.batch(0)
    for row, reds in ((0, [0, 9]), (1, [18])):
        seen = [content for ending, content in files(batch, feed, row).items() if ending.startswith("image")]
        shown = {int(np.asarray(Image.open(BytesIO(each)))[10, 10, 0]) for each in seen}
        assert shown == set(reds)


def test_sounds_are_files_of_their_own_length(tmp_path: Path) -> None:
    sounds = [{"array": [0.0, 0.5] * 400 * n, "sampling_rate": 16_000} for n in (1, 2)]
    path = write_records(tmp_path, [{"text": "hello", "audio": sound} for sound in sounds], "speech.jsonl")
    feed = run([source(path, "voice_tts")], batch_size=2, shuffle=False)
    batch = feed.batch(0)
    assert [len(files(batch, feed, index)["target_audio0.wav"]) for index in range(2)] == [44 + 1600, 44 + 3200]
    mel = run([source(path, "voice_tts")], batch_size=2, shuffle=False, use_raw_waveform=False)
    picture = Image.open(BytesIO(files(mel.batch(0), mel, 0)["target_audio0.png"]))
    assert picture.size[1] == 80


def test_replay_prints_texts_on_a_terminal_only(
    tmp_path: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")
    hostile = {**question(0), "images": []}
    hostile["messages"] = [
        {"role": "user", "content": "What?"},
        {"role": "assistant", "content": "[red]A \x1b]0;title\x07."},
    ]
    path = write_records(tmp_path, [hostile], "hostile.jsonl")
    config = {
        "recipe": "chat",
        "batch_size": 1,
        "cache": {"dir": "cache", "size": "1GB"},
        "sources": [{"name": "hostile", "dtype": "conversation", "path": path.name}],
        "chat": {"tokenizer": "tokenizer", "tokens": TOKENS, "max_length": 64},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    command = ["replay", str(tmp_path / "run.yaml"), "--steps", "0", "-o", str(tmp_path / "out")]
    plain = CliRunner().invoke(app, command)
    assert plain.exit_code == 0 and plain.stdout.count("\n") == 1
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = CliRunner().invoke(app, command).output
    assert "\x1b[32m[red]A" in coloured and "hostile.jsonl:0" in coloured
    assert "\x1b]0;" not in coloured and "\x07" not in coloured
    assert {each.suffix for each in (tmp_path / "out" / "step-0" / "rank-0").iterdir()} == {".txt", ".ansi", ".json"}


def test_replay_counts_packs_and_the_samples_in_them(tmp_path: Path, questions: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")
    config = {
        "recipe": "chat",
        "batch_size": 2,
        "cache": {"dir": "cache", "size": "1GB"},
        "sources": [{"name": "questions", "dtype": "conversation", "path": str(questions)}],
        "chat": {"tokenizer": "tokenizer", "tokens": TOKENS, "max_length": 128, "pack": True},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    command = ["replay", str(tmp_path / "run.yaml"), "--steps", "0", "-o", str(tmp_path / "out")]
    said = CliRunner().invoke(app, command).stdout
    batch = json.loads((tmp_path / "out" / "step-0" / "rank-0" / "batch.json").read_text())
    members = [sample["members"] for sample in batch["samples"]]
    assert f": {sum(map(len, members))} samples in 2 packs\n" in said
    assert sum(map(len, members)) > 2


def test_the_frames_of_a_video_are_a_sheet_of_eight_in_a_row(tmp_path: Path) -> None:
    for number in range(10):
        Image.new("RGB", (8, 8), (number * 20, 0, 0)).save(tmp_path / f"{number}.png")
    record = {"video": [f"{number}.png" for number in range(10)], "caption": "ten frames"}
    path = write_records(tmp_path, [record], "films.jsonl")
    feed = run([source(path, "video")], batch_size=1, max_video_frames=10, video_size=8)
    sheet = np.asarray(Image.open(BytesIO(files(feed.batch(0), feed, 0)["video0.png"])))
    assert sheet.shape == (16, 64, 3)
    reds = sheet[4::8, 4::8, 0].reshape(-1).astype(int)
    assert np.abs(reds - [*range(0, 200, 20), *[0] * 6]).max() <= 1
