"""docs/speech.md: its example of augmentations runs, and does what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from penstock.media.audio.wav import wav_bytes
from tests.clips import RATE, clip_run, write_clips

PAGE = Path(__file__).parents[1] / "docs" / "speech.md"


def run_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the code of the page in a folder with a run, recordings of noise and responses of rooms."""
    write_clips(folder, {"assamese": [6]})
    run = clip_run(folder, batch={"seconds": 20, "window": 6}, cache={"dir": "cache", "size": "1GB"})
    run |= {"filelist": "train.tsv", "store": ".", "speech": {"features": False}}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    for name, seconds in (("noises", 1.5), ("rooms", 0.2)):
        (folder / name).mkdir()
        for number in range(3):
            sound = 0.2 * np.random.default_rng(number).standard_normal(round(seconds * RATE)).astype(np.float32)
            (folder / name / f"{number}.wav").write_bytes(wav_bytes(sound, RATE))
    monkeypatch.chdir(folder)
    [code] = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if "class Noise" in block]
    found: dict[str, Any] = {}
    exec(code, found)
    return found


def test_the_augmentations_of_the_page_are_the_same_from_any_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = run_example(tmp_path, monkeypatch)["feed"]
    with feed.loader(threads=3) as loader:
        for _ in range(4):
            batch = next(loader)
            again = feed.batch(batch["step"], unit=batch["unit"])
            assert (batch["wav"] == again["wav"]).all() and not batch["bad"]
            assert np.prod(batch["wav"].shape) <= 20 * RATE


def test_the_noise_of_the_page_is_5_to_20_db_softer_and_reverberation_keeps_the_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run_example(tmp_path, monkeypatch)
    clip = np.sin(np.arange(3 * RATE) / 7).astype(np.float32)
    ratios = []
    for draw in range(40):
        added = found["Noise"]("noises").wave(clip.copy(), draw) - clip
        ratios.append(10 * np.log10(np.mean(clip**2) / np.mean(added**2)))
    assert 4.9 < min(ratios) < 8 and 17 < max(ratios) < 20.1
    heard = found["Reverberation"]("rooms").wave(clip.copy(), 1)
    assert heard.dtype == np.float32 and len(heard) == len(clip) and not np.allclose(heard, clip)
