"""Small tar shards of clips whose quality is known, for the tests of this room."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.store.local import LocalStore
from tests.media.audio.clips import encode
from tests.readers.tar.archives import write_tar

RATE = 16_000


def tone(seconds: float, level: float = 0.3, noise: float = 0.001, seed: int = 0) -> NDArray[np.float32]:
    """A tone that is on for half of every 0.4 s, over noise: a clean clip unless told otherwise."""
    time = np.arange(round(seconds * RATE)) / RATE
    sound = level * np.sin(2 * np.pi * 440 * time) * (time % 0.4 < 0.2)
    return np.asarray(sound + noise * np.random.default_rng(seed).standard_normal(len(time)), dtype=np.float32)


def wav(sound: NDArray[np.float32]) -> bytes:
    return encode(np.clip(sound, -1, 1)[:, None], RATE)


def files(name: str, audio: bytes, fields: Mapping[str, Any] | None = None) -> list[tuple[str, bytes]]:
    described = [] if fields is None else [(f"{name}.json", json.dumps(fields).encode())]
    return [(f"{name}.wav", audio), *described]


def corpus(folder: Path, shards: int = 4, clips: int = 6) -> tuple[LocalStore, list[str]]:
    """``<language>/shard-<n>.tar`` in two languages; clip c lasts 1 + c seconds and is spoken by S0, S1 or S2."""
    paths = []
    for shard in range(shards):
        language = ("hindi", "odia")[shard % 2]
        members = []
        for clip in range(clips):
            fields = {"language": language, "speaker": f"S{clip % 3}", "dnsmos": 1.0 + clip / 2, "duration": 99}
            members += files(f"s{shard}_{clip}", wav(tone(1 + clip, seed=clip)), fields)
        paths.append(f"{language}/shard-{shard:06d}.tar")
        write_tar(folder / paths[-1], members)
    return LocalStore(folder), paths
