"""A clip's bytes -> a random six-second crop at 16 kHz, the way a careful user of any loader writes it."""

import io
from functools import cache

import numpy as np
import soundfile
import soxr
import torch

CROP, RATE = 96_000, 16_000


def crop(data: bytes) -> torch.Tensor:
    """Seek, decode only the crop, resample where needed, pad with zeros."""
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        size = CROP * file.samplerate // RATE
        file.seek(np.random.randint(max(0, file.frames - size) + 1))
        sound = file.read(size, dtype="float32")
        if file.samplerate != RATE:
            sound = soxr.resample(sound, file.samplerate, RATE)
    return torch.nn.functional.pad(torch.from_numpy(sound[:CROP]), (0, CROP - min(CROP, len(sound))))


@cache
def extractor() -> object:
    from transformers import SeamlessM4TFeatureExtractor

    return SeamlessM4TFeatureExtractor()


def features(wav: torch.Tensor) -> torch.Tensor:
    """[300, 160]: what W2V-BERT's own feature extractor gives."""
    padded = torch.nn.functional.pad(wav, (160, 160)).numpy()
    return extractor()(padded, sampling_rate=RATE, return_tensors="pt")["input_features"][0]


def sample(data: bytes, job: str) -> dict[str, torch.Tensor]:
    wav = crop(data)
    return {"wav": wav, "feats": features(wav)} if job == "feats" else {"wav": wav}
