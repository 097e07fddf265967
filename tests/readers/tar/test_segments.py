"""Segments of long recordings in plain tar shards: items of their own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.manifest.errors import ManifestError
from penstock.readers.sidecars import TextPlace
from penstock.readers.tar.index import TarIndexing
from penstock.readers.tar.manifest import TarManifest
from penstock.runtime.engines.engine import ThreadEngine
from penstock.store.local import LocalStore
from tests.readers.tar.archives import write_tar
from tests.recipes.test_speech import RATE, ramp, wav

TALK = {
    "language": "en",
    "speaker": "s1",
    "segments": [
        {"start": 0.0, "end": 0.25, "text": "one"},
        {"start": 0.25, "end": 0.5, "text": " "},
        {"start": 0.5, "end": 9.0, "text": "three", "speaker": "s2"},
    ],
}


def index(folder: Path, talk: Any, text: TextPlace | None = None) -> tuple[TarManifest, int]:
    files = [("talk.wav", wav(ramp(RATE))), ("talk.json", json.dumps(talk).encode()), ("short.wav", wav(ramp(RATE)))]
    write_tar(folder / "en" / "0.tar", [*files, ("short.json", b'{"text": "whole", "language": "en"}')])
    indexing = TarIndexing(LocalStore(folder), ["en/0.tar"], folder / "index", text=text, segments=True)
    indexing.run(ThreadEngine(1))
    return indexing.finish(), indexing.without_text


def test_segments_are_items_with_their_own_sound_text_and_fields(tmp_path: Path) -> None:
    manifest, without_text = index(tmp_path, TALK, TextPlace("text"))
    assert manifest.ids(range(3)) == ["talk#0", "talk#2", "short"]
    assert manifest.seconds(range(3)).tolist() == [0.25, 0.5, 1.0]
    assert without_text == 1
    keys = {"manifest": str(tmp_path / "index"), "store": str(tmp_path), "batch_size": 3, "passes": 1}
    batch = penstock.speech(keys, crop="full", features=False, text_field="text", json_fields=["speaker"]).batch(0)
    assert not batch["bad"]
    whole = ramp(RATE)
    expected = {
        "talk#0": ("one", "s1", whole[: RATE // 4]),
        "talk#2": ("three", "s2", whole[RATE // 2 :]),
        "short": ("whole", None, whole),
    }
    assert set(batch["ids"]) == set(expected)
    for row, name in enumerate(batch["ids"]):
        text, speaker, sound = expected[name]
        found = np.rint(batch["wav"][row][: batch["length"][row]].numpy() * 32768)
        assert (batch["text"][row], batch["speaker"][row]) == (text, speaker)
        assert np.array_equal(found, sound)


def test_an_index_without_segments_takes_the_recording_as_one_item(tmp_path: Path) -> None:
    index(tmp_path, TALK)
    plain = TarIndexing(LocalStore(tmp_path), ["en/0.tar"], tmp_path / "plain")
    plain.run(ThreadEngine(1))
    assert plain.finish().ids(range(2)) == ["talk", "short"]


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ({"start": 0}, "segments is not a list of objects with start, end and text"),
        ([3], "segment 0 is not an object with start, end and text"),
        ([{"end": 1}], "segment 0 has start None, not a number of seconds"),
        ([{"start": 0, "end": "1"}], "segment 0 has end '1', not a number of seconds"),
        ([{"start": 0.5, "end": 0.5}], "segment 0 is from 0.5 to 0.5 s; a segment ends after its start"),
        ([{"start": -1, "end": 0.5}], "segment 0 is from -1 to 0.5 s; a segment ends after its start"),
        ([{"start": float("nan"), "end": 0.5}], "segment 0 is from nan to 0.5 s"),
        ([{"start": 0, "end": 1}, {"start": 4, "end": 5}], "segment 1 starts at 4 s, and the recording ends at 1 s"),
    ],
)
def test_a_segment_that_cannot_be_used_is_named(tmp_path: Path, segments: Any, reason: str) -> None:
    with pytest.raises(ManifestError) as caught:
        index(tmp_path, {"segments": segments})
    assert f"en/0.tar:talk: {reason}" in str(caught.value)
