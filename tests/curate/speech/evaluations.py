"""Small corpora for the tests of evaluation data, and what was built of them."""

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.curate.speech.evaluation.build import Built, build_evaluation
from penstock.curate.speech.evaluation.destination import open_destination
from penstock.curate.speech.evaluation.folders import folder_candidates
from penstock.runtime.engines.engine import ThreadEngine
from tests.media.audio.clips import encode, voice


def speech(seed: int, rate: int = 16_000, seconds: float | None = None) -> NDArray[np.float32]:
    """[frames, 1], each another, of another length."""
    return voice(rate, seconds or 0.5 + 0.13 * (seed % 7), seed=seed)


def write_folders(root: Path, clips: int = 8, languages: tuple[str, ...] = ("hindi", "odia")) -> Path:
    """``<language>/speaker<n>/clip<n>.wav`` and .txt; every third is 24 kHz FLAC with a .json."""
    for number, language in enumerate(languages):
        for clip in range(clips):
            folder = root / language / f"speaker{clip % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            seed = 100 * number + clip
            if clip % 3 == 2:
                (folder / f"clip{clip}.flac").write_bytes(encode(speech(seed, 24_000), 24_000, "FLAC"))
                (folder / f"clip{clip}.json").write_text(json.dumps({"text": f"{language} {clip}"}))
            else:
                (folder / f"clip{clip}.wav").write_bytes(encode(speech(seed), 16_000))
                (folder / f"clip{clip}.txt").write_text(f"{language} {clip}\n")
    return root


def build_from_folders(root: Path, out: str | Path, **options: Any) -> Built:
    with open_destination(str(out)) as destination:
        engine = options.pop("engine", ThreadEngine(1))
        return build_evaluation(folder_candidates(root), destination, engine, **options)


def samples_in(archive: Path) -> dict[str, tuple[bytes, dict[str, Any]]]:
    """The .wav and the .json of every sample, in the archive's order."""
    with tarfile.open(archive) as tar:
        data = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    return {
        name.removesuffix(".wav"): (data[name], json.loads(data[name.removesuffix(".wav") + ".json"]))
        for name in data
        if name.endswith(".wav")
    }


def files_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.is_file()}
