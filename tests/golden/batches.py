"""Compare state and batches of small runs of every recipe with batches.json, which pins them.

``python -m tests.golden.batches`` checks all of them. With ``--write`` it writes the file anew; do that only where a
change is meant, and say so in the CHANGELOG, as running trainings lose their order or their checkpoints.

Integers, booleans, texts and bytes are compared exactly, by a digest per field. Floats differ between CPUs in their
last digits: of them some values and the mean are stored, and must be close. What is still close is not written anew.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from penstock.feed.batches import BadSample
from tests.golden.runs import RUNS

GOLDEN = Path(__file__).with_suffix(".json")
STEPS = 20
SHOWN = 5  # values per field and step
# Features by a float32 FFT were 3e-3 off on another make of CPU; a step of uint8 is up to 0.017 in a normalised image.
TOLERANCES = {"feats": 2e-2, "images": 5e-2, "pixel_values": 5e-2}
TOLERANCE = 1e-3

Entry = dict[str, Any]


def fields(batch: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield name and value of every field of a batch, also of a batch per recipe."""
    for name, value in batch.items():
        if isinstance(value, dict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value.numpy() if hasattr(value, "numpy") else value


def floats(value: np.ndarray[Any, Any]) -> list[float]:
    """Return the mean of an array and some of its values."""
    flat = value.reshape(-1).astype(np.float64)
    if not flat.size:
        return []
    places = np.linspace(0, flat.size - 1, SHOWN).astype(int)
    return [round(float(each), 4) for each in (flat.mean(), *flat[places])]


def exact(value: Any) -> bytes:
    """Return the bytes of what must not change in any digit."""
    if isinstance(value, list) and value and isinstance(value[0], BadSample):
        return repr([each._replace(reason="") for each in value]).encode()
    if not isinstance(value, np.ndarray):
        return repr(value).encode()
    shape = f"{value.dtype}{value.shape}".encode()
    if value.dtype.kind == "f":
        return shape
    return shape + np.ascontiguousarray(value).tobytes()


def made(name: str, folder: Path) -> Entry:
    """Return what is pinned of a run."""
    feed = RUNS[name](folder)
    digests: dict[str, Any] = {}
    values: dict[str, list[float]] = {}
    steps = min(STEPS, len(feed)) if feed.config.passes else STEPS
    for step in range(steps):
        for field, value in (field for unit in feed.units(step) for field in fields(unit)):
            digests.setdefault(field, hashlib.sha256()).update(f"{step}:".encode() + exact(value))
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                values.setdefault(field, []).extend(floats(value))
    state = feed.state(steps)
    feed.close()
    exactly = {field: digest.hexdigest()[:16] for field, digest in sorted(digests.items())}
    return {"state": json.loads(json.dumps(state)), "exactly": exactly, "floats": dict(sorted(values.items()))}


def close(field: str, one: list[float], other: list[float]) -> bool:
    tolerance = TOLERANCES.get(field, TOLERANCE)
    return len(one) == len(other) and np.allclose(one, other, rtol=tolerance, atol=tolerance)


def differences(pinned: Entry, found: Entry) -> list[str]:
    """Return the names of what differs between two entries."""
    names = [
        f"{part} {name}"
        for part in ("state", "exactly")
        for name in sorted(pinned[part].keys() | found[part].keys())
        if pinned[part].get(name) != found[part].get(name)
    ]
    ours, theirs = found["floats"], pinned["floats"]
    keys = sorted(ours.keys() | theirs.keys())
    return names + [f"floats {key}" for key in keys if not close(key, ours.get(key, []), theirs.get(key, []))]


def everything() -> dict[str, Entry]:
    entries = {}
    for name in RUNS:
        with TemporaryDirectory() as folder:
            entries[name] = made(name, Path(folder))
    return entries


def read() -> dict[str, Entry]:
    entries: dict[str, Entry] = json.loads(GOLDEN.read_text())
    return entries


def write(found: dict[str, Entry]) -> None:
    """Write the file: one field per line, so that a diff shows what moved."""
    pinned = read() if GOLDEN.exists() else {}
    runs = []
    for name, entry in found.items():
        kept = pinned.get(name, {}).get("floats", {})
        for field, values in entry["floats"].items():
            if close(field, kept.get(field, []), values):
                entry["floats"][field] = kept[field]
        parts = []
        for part, content in entry.items():
            lines = ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
            parts.append(f"  {json.dumps(part)}: {{\n{lines}\n  }}" if lines else f"  {json.dumps(part)}: {{}}")
        runs.append(f" {json.dumps(name)}: {{\n" + ",\n".join(parts) + "\n }")
    GOLDEN.write_text("{\n" + ",\n".join(runs) + "\n}\n")


def main(arguments: list[str]) -> int:
    found = everything()
    if arguments == ["--write"]:
        write(found)
        return 0
    pinned = read()
    wrong = [f"{name}: {each}" for name in found for each in differences(pinned[name], found[name])]
    for line in wrong:
        print(f"differs from {GOLDEN.name}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
