"""What the demo files of tests/data/chat must become, found without Penstock: by PIL, PyAV, soundfile and soxr.

``python -m tests.e2e.chat_golden`` writes tests/data/chat/files.json again.
"""

import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from PIL import Image, ImageOps

from tests.text.formats.test_demo_files import DATA, FILES, records, samples
from tests.text.rendering import TOKENS, rendered

GOLDEN = DATA / "files.json"
MEDIA = DATA / "media"
NAMED = "mllm_demo_data"  # the folder that records name
SIZE = 64
FRAMES = 8
RATE = 16_000
SECONDS = 10
MEAN = np.array([0.48145466, 0.4578275, 0.40821073])
STD = np.array([0.26862954, 0.26130258, 0.27577711])
Array = NDArray[Any]


def resized(image: Image.Image) -> Array:
    """An image as CLIP takes it, without cropping: [3, size, size]."""
    small = ImageOps.exif_transpose(image).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return ((np.asarray(small) / 255 - MEAN) / STD).transpose(2, 0, 1)


def image(path: Path) -> Array:
    return resized(Image.open(path))


def video(path: Path) -> Array:
    """All frames are decoded; of them, some at equal distances are taken: [frames, 3, size, size]."""
    with av.open(str(path)) as container:
        frames = [frame.to_image() for frame in container.decode(video=0)]
    return np.stack([resized(frames[at]) for at in np.linspace(0, len(frames) - 1, FRAMES, dtype=int)])


def audio(path: Path) -> Array:
    """The first ten seconds, mono, at 16 kHz: [samples]."""
    found, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return np.asarray(soxr.resample(found.mean(axis=1), rate, RATE))[: SECONDS * RATE]


READ = {"image": image, "video": video, "audio": audio}


def summary(array: Array) -> dict[str, Any]:
    """The shape, and values that a wrong frame, channel, crop or scale would change."""
    spread = np.linspace(0, array.size - 1, 11, dtype=int)
    return {
        "shape": list(array.shape),
        "mean": float(array.mean()),
        "std": float(array.std()),
        "values": [round(float(value), 4) for value in array.reshape(-1)[spread]],
    }


def golden() -> dict[str, Any]:
    """Per file: the text of every record, and its media."""
    found: dict[str, Any] = {}
    for name in FILES:
        found[name] = []
        for record, sample in zip(records(name), samples(name), strict=True):
            entry: dict[str, Any] = {"text": rendered(sample)}
            for kind, read in READ.items():
                if paths := record.get(f"{kind}s"):
                    entry[kind] = [summary(read(MEDIA / Path(path).name)) for path in paths]
            found[name].append(entry)
    return found


if __name__ == "__main__":
    assert TOKENS["image_start"] == "<|image|>"
    GOLDEN.write_text(json.dumps(golden(), ensure_ascii=False, indent=1) + "\n")
