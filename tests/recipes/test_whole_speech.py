"""Whole clips with their texts, as recognition and synthesis take them."""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import penstock
from penstock.config import ConfigError
from penstock.feed import Feed
from penstock.media.audio.features import feature_rows
from penstock.readers.tar.filelist import compile_filelist
from penstock.readers.tar.selected import SelectedManifest
from penstock.recipes.file_panels import panels_of
from penstock.recipes.panels import FieldPanel, SoundPanel, TextPanel
from tests.readers.tar.archives import write_tar
from tests.recipes.test_speech import RATE, SPEECH, ramp, wav
from tests.text.made_tokenizers import byte_level

REAL = {"libri-1088-134315-0000.wav": "as you know", "LJ002-0020.wav": "the common side"}


def write_clips(folder: Path, files: Mapping[str, bytes], seconds: Mapping[str, float]) -> dict[str, Any]:
    """The options of a run over whole clips of one shard in one language."""
    write_tar(folder / "shard.tar", files.items())
    lines = [f"shard.tar\t{name}\tenglish\t{length}\n" for name, length in seconds.items()]
    (folder / "train.tsv").write_text("".join(lines))
    return {
        "recipe": "speech",
        "batch_size": len(seconds),
        "filelist": str(folder / "train.tsv"),
        "store": str(folder),
        "cache": {"dir": str(folder / "cache"), "size": "1GB"},
    }


def short_clips(
    folder: Path, labels: Mapping[str, Mapping[str, bytes]], run: Mapping[str, Any] | None = None, **speech: Any
) -> Feed:
    """Clips of 1, 2, … tenths of a second, with files beside them by extension."""
    files = {}
    for number, (name, own) in enumerate(labels.items(), 1):
        files[f"{name}.wav"] = wav(1 + ramp(number * RATE // 10))
        files |= {f"{name}.{extension}": content for extension, content in own.items()}
    seconds = {name: number / 10 for number, name in enumerate(labels, 1)}
    keys = {key: value for key, value in (write_clips(folder, files, seconds) | dict(run or {})).items() if value}
    return penstock.open(keys, speech={"crop": "full", "features": False, **speech})


def by_id(batch: Mapping[str, Any], field: str) -> dict[str, Any]:
    return dict(zip(batch["ids"], batch[field], strict=True))


def test_real_clips_train_in_full_with_their_texts(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    for name, text in REAL.items():
        files[name] = (SPEECH / name).read_bytes()
        files[f"{name.split('.')[0]}.txt"] = f"{text}\n".encode()
    options = write_clips(tmp_path, files, {name.split(".")[0]: 5.0 for name in REAL})
    batch = penstock.open(options, speech={"crop": "full", "text": True}).batch(3)
    assert by_id(batch, "text") == {name.split(".")[0]: text for name, text in REAL.items()}
    assert batch["wav"].shape == (2, int(batch["length"].max()))
    for row, length in enumerate(batch["length"].tolist()):
        assert int(batch["feats_mask"][row].sum()) == feature_rows(length)
        assert not batch["feats"][row, 0][~batch["feats_mask"][row]].any()
    assert batch["feats_mask"].dtype == torch.bool


def test_a_text_may_be_a_field_of_the_json_and_other_fields_come_by_name(tmp_path: Path) -> None:
    facts = {
        "a": {"transcript": " one ", "speaker": "s1", "age": 30},
        "b": {"transcript": "two", "speaker": "s2"},
    }
    labels = {name: {"json": json.dumps(own).encode()} for name, own in facts.items()}
    feed = short_clips(tmp_path, labels, text_field="transcript", json_fields=["speaker", "age"])
    batch = feed.batch(0)
    assert by_id(batch, "text") == {"a": "one", "b": "two"}
    own = batch["ids"].index("a")
    assert dict(feed.preview("speech", batch, own))["txt"] == b"one"
    assert by_id(batch, "speaker") == {"a": "s1", "b": "s2"}
    assert by_id(batch, "age") == {"a": 30, "b": None}


def test_a_page_shows_the_text_and_the_fields_that_a_clip_has(tmp_path: Path) -> None:
    facts: dict[str, dict[str, Any]]
    facts = {
        "a": {"text": "one", "speaker": "<b>s1</b>", "tags": ["x", 2]},
        "b": {"text": "two", "age": 0},
        "c": {"text": "c"},
    }
    labels = {name: {"json": json.dumps(own).encode()} for name, own in facts.items()}
    feed = short_clips(tmp_path, labels, text_field="text", json_fields=["speaker", "tags", "age"])
    batch = feed.batch(0)
    [recipe] = feed.recipes.values()
    shown = {}
    for index, name in enumerate(batch["ids"]):
        sound, text, *fields = panels_of(recipe, batch, index)
        assert isinstance(sound, SoundPanel) and isinstance(text, TextPanel)
        assert text.pieces[0].text == facts[name]["text"]
        shown[name] = [panel.fields for panel in fields if isinstance(panel, FieldPanel)]
    assert shown == {"a": [{"speaker": "<b>s1</b>", "tags": '["x", 2]'}], "b": [{"age": "0"}], "c": []}


def test_tokens_are_those_of_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = byte_level(bos=True)
    folder = tmp_path / "tokenizer"
    tokenizer.save_pretrained(folder)
    labels = {"a": {"txt": b"hello"}, "b": {"txt": "hello, wörld".encode()}}
    for given in (tokenizer, str(folder)):
        feed = short_clips(tmp_path, labels, text=True, tokenizer=given)
        batch = pickle.loads(pickle.dumps(feed)).batch(0)
        assert batch["tokens"].shape == (2, int(batch["token_lengths"].max()))
        for row, text in enumerate(batch["text"]):
            length = int(batch["token_lengths"][row])
            assert batch["tokens"][row, :length].tolist() == tokenizer(text)["input_ids"]
            assert (batch["tokens"][row, length:] == (tokenizer.pad_token_id or 0)).all()


def test_a_tokenizer_is_named_relative_to_its_config(tmp_path: Path) -> None:
    byte_level(bos=True).save_pretrained(tmp_path / "tokenizer")
    options = write_clips(tmp_path, {"a.wav": wav(ramp(RATE // 2)), "a.txt": b"hello"}, {"a": 0.5})
    speech = {"crop": "full", "text": True, "tokenizer": "tokenizer"}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({**options, "speech": speech}))
    assert penstock.open(tmp_path / "run.yaml").batch(0)["token_lengths"].tolist() == [5]


@pytest.mark.parametrize(
    ("files", "speech", "reason"),
    [
        ({}, {"text": True}, "has wav, and no .txt with its text"),
        ({"txt": b" \n"}, {"text": True}, "the text in its .txt is empty"),
        ({"txt": b"caf\xe9"}, {"text": True}, "its .txt is not UTF-8: unexpected end of data at byte 3"),
        ({"json": b"{}"}, {"text_field": "text"}, "its .json has no text 'text'; it has no fields"),
        ({"json": b'{"text": 3}'}, {"text_field": "text"}, "its .json has no text 'text'; it has text"),
        ({"json": b"[1]"}, {"json_fields": ["speaker"]}, "its .json holds no fields"),
        ({"json": b"{"}, {"json_fields": ["speaker"]}, "its .json is not JSON: "),
    ],
)
def test_a_clip_without_what_it_needs_is_bad(
    tmp_path: Path, files: dict[str, bytes], speech: dict[str, Any], reason: str
) -> None:
    good = {"txt": b"good", "json": b'{"text": "good", "speaker": "s"}'}
    batch = short_clips(tmp_path, {"a": good, "b": files, "c": good}, **speech).batch(0)
    [bad] = batch["bad"]
    assert bad.id == "b"
    assert reason in bad.reason
    assert "b" not in batch["ids"]


def test_padding_of_a_finite_run_has_empty_texts(tmp_path: Path) -> None:
    labels = {name: {"txt": b"hello"} for name in "abc"}
    batch = short_clips(tmp_path, labels, {"batch_size": 2, "passes": 1}, text=True).batch(1)
    assert batch["valid"].tolist() == [True, False]
    assert batch["text"] == ["hello", ""]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speech": {"text": True}}, "text: belongs to whole clips; set crop: full"),
        ({"speech": {"augment": {"speed": [0.9]}}}, "augment: belongs to whole clips; set crop: full"),
        ({"speech": {"crop": "full", "augment": {"echo": 1}}}, "takes speed: .*, not echo: 1"),
        ({"speech": {"crop": "full", "augment": [1]}}, "is neither {speed: .* nor a list of Augmentation objects"),
        ({"speech": {"json_fields": ["speaker"]}}, "json_fields: belongs to whole clips; set crop: full"),
        ({"speech": {"crop": "full", "json_fields": ["length"]}}, "batches have a length of their own; rename"),
        ({"speech": {"crop": "full", "json_fields": ["text"], "text": True}}, "batches have a text of their own"),
        ({"speech": {"crop": "full", "features": False, "augment": {"spec_augment": True}}}, "features is false"),
        ({"speech": {"crop": "full", "tokenizer": "x"}}, "tokenizer: there is no text; set text: true"),
        ({"min_seconds": 3, "max_seconds": 2}, "max_seconds: no clip is between 3 and 2 s long"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path: Path, options: Any, message: str) -> None:
    keys = write_clips(tmp_path, {"a.wav": wav(ramp(RATE))}, {"a": 1.0})
    with pytest.raises(ConfigError, match=message):
        penstock.open({**keys, **options})


def test_augmented_clips_have_the_length_that_was_planned_and_are_the_same_whoever_makes_them(tmp_path: Path) -> None:
    labels = {f"{number:02}": {} for number in range(40)}
    run = {"batch_size": None, "batch": {"seconds": 12, "units": 2}, "seed": 3}
    speech = {"features": True, "augment": {"speed": [0.8, 1.0, 1.25], "spec_augment": {"bins": 20}}}
    feed = short_clips(tmp_path, labels, run, **speech)
    changed = 0
    for step in range(3):
        for batch in feed.units(step):
            assert batch["wav"].shape[0] * batch["wav"].shape[1] <= 12 * RATE
            assert not batch["bad"]
            for name, length in zip(batch["ids"], batch["length"].tolist(), strict=True):
                factor = (int(name) + 1) * RATE / 10 / length
                assert min(abs(factor - each) for each in (0.8, 1.0, 1.25)) < 0.01
                changed += abs(factor - 1) > 0.1
            assert bool((batch["feats"][:, 0][batch["feats_mask"]] == 0).any())
    assert changed > 10
    for rank in range(2):
        [batch] = short_clips(tmp_path, labels, run, **speech).units(1, rank, 2)
        expected = feed.units(1)[rank]
        assert torch.equal(batch["wav"], expected["wav"])
        assert torch.equal(batch["feats"], expected["feats"])
    slower = short_clips(tmp_path, labels, run, **{**speech, "augment": {"speed": [0.9]}})
    with pytest.raises(penstock.StateError, match="items"):
        slower.resume(feed.state(2))


# Clips by duration.


def test_clips_that_are_too_short_or_too_long_are_not_in_the_plan(tmp_path: Path) -> None:
    labels = {name: {} for name in "abcdef"}
    whole = short_clips(tmp_path, labels, {"batch_size": 3})
    feed = short_clips(tmp_path, labels, {"batch_size": 3, "min_seconds": 0.2, "max_seconds": 0.4})
    for step in range(4):
        batch = feed.batch(step)
        assert sorted(batch["ids"]) == ["b", "c", "d"]
        assert not batch["bad"]
    assert [use.step for _, use in feed.where("shard.tar:c", range(4))] == [0, 1, 2, 3]
    assert list(feed.where("a")) == []
    with pytest.raises(penstock.StateError, match="items"):
        whole.resume(feed.state(1))


def test_a_range_without_clips_names_the_source(tmp_path: Path) -> None:
    keys = write_clips(tmp_path, {"a.wav": wav(ramp(RATE))}, {"a": 1.0})
    with pytest.raises(Exception, match="no clip of english is between 5 and 9 s long; change min_seconds or max_sec"):
        penstock.open({**keys, "min_seconds": 5, "max_seconds": 9})


def test_rows_of_selected_clips_are_those_of_the_manifest(tmp_path: Path) -> None:
    """Random durations over several sources and shards, some of which keep nothing."""
    rng = np.random.default_rng(0)
    sources = ("english", "hindi", "odia")
    lines = []
    for number in range(3_000):
        shard = number // 50
        seconds = 20.0 if shard % 7 == 3 else round(float(rng.uniform(0.5, 20)), 2)
        lines.append(f"{sources[shard % 3]}/{shard}.tar\tclip{number}\t{sources[shard % 3]}\t{seconds}\n")
    (tmp_path / "train.tsv").write_text("".join(lines))
    whole = compile_filelist(tmp_path / "train.tsv", tmp_path / "manifest")
    found = pickle.loads(pickle.dumps(SelectedManifest(whole.path, 2.0, 15.0)))
    seconds = whole.seconds(np.arange(len(whole)))
    expected = np.flatnonzero((seconds >= 2) & (seconds <= 15))
    rows = np.concatenate(
        [
            found.rows(source, group, np.arange(size))
            for source in range(3)
            for group, size in enumerate(found.group_sizes(source).tolist())
        ]
    )
    assert rows.tolist() == expected.tolist()
    assert len(found) == len(expected) == sum(found.items)
    source, group, item = found.locate(rows)
    assert found.rows(source, group, item).tolist() == rows.tolist()
    for own, each, row in zip(source.tolist(), group.tolist(), rows.tolist(), strict=True):
        assert found.shard_of_group(own, each) == whole.shard(int(whole.shard_of(row)))
    assert found.amounts["hours"] == tuple(
        int(np.rint(seconds[expected[source == own]].astype(float) * 1e6).sum()) for own in range(3)
    )
    assert [left + kept for left, kept in zip(found.left_out, found.items, strict=True)] == list(whole.items)
