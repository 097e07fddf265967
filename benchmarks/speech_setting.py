"""The setting of the speech document, without its data: an index of 7,000 shards in 12 languages, and a run over them.

python benchmarks/speech_setting.py FOLDER [--clips 1000]
penstock simulate FOLDER/run.yaml --nodes 8 --gpus-per-node 8 --step-time 0.4s --cache 500GB --steps 100000
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.readers.tar.layout import MEMBER, Shard
from penstock.readers.tar.writer import ItemTable, Members, write_manifest

HOURS = {"english": 10002, "telugu": 9123, "hindi": 9054, "punjabi": 8917, "malayalam": 7842, "gujarati": 6875}
HOURS |= {"kannada": 6263, "tamil": 5195, "bengali": 2981, "marathi": 2579, "odia": 2199, "assamese": 617}
SHARDS = 7_000
BYTES_PER_SECOND = 32_000  # 16 kHz, 16 bits
BLOCK_BYTES = 512
STORE = "s3://speech/shards"


def write_setting(folder: Path, clips: int, lanes: int = 8, pool: int = 16, shards: int = SHARDS) -> Path:
    """Write the index of all shards, and the config of a run over them.

    Args:
        folder: Folder for both.
        clips: Clips per shard.
        lanes: Lanes of the run.
        pool: Resident shards per language and lane.
        shards: Number of shards.

    Returns:
        Path of the config.
    """
    total = sum(HOURS.values())
    counts = {name: max(1, round(shards * hours / total)) for name, hours in HOURS.items()}
    seconds = {name: hours * 3600 * shards / SHARDS / (counts[name] * clips) for name, hours in HOURS.items()}
    sizes = {name: int(each * BYTES_PER_SECOND) // BLOCK_BYTES * BLOCK_BYTES for name, each in seconds.items()}
    names = [name for name in HOURS for _ in range(counts[name])]
    made = [
        Shard(f"{name}_16/shard-{number:06d}.tar", clips * (sizes[name] + BLOCK_BYTES) + 2 * BLOCK_BYTES, f"{number}")
        for number, name in enumerate(names)
    ]
    items = len(names) * clips
    shard = np.repeat(np.arange(len(names), dtype=np.int32), clips)
    size = np.repeat(np.array([sizes[name] for name in names]), clips)
    offset = np.tile(np.arange(clips), len(names)) * (size + BLOCK_BYTES) + BLOCK_BYTES
    member = pa.StructArray.from_arrays(
        [pa.array(np.zeros(items, np.uint16)), pa.array(offset), pa.array(size), pa.array(np.zeros(items, np.uint32))],
        fields=list(MEMBER),
    )
    table = ItemTable(
        pa.array((f"clip-{number}" for number in range(items)), pa.large_string()),
        np.repeat(np.array([seconds[name] for name in names]), clips),
        shard,
        np.repeat(np.array([list(HOURS).index(name) for name in names], dtype=np.int32), clips),
        made,
        list(HOURS),
        Members(pa.LargeListArray.from_arrays(pa.array(np.arange(items + 1)), member), ["wav"]),
        STORE,
    )
    write_manifest(table, folder / "index")
    config = folder / "run.yaml"
    config.write_text(
        f"recipe: raw\nmanifest: {folder / 'index'}\nstore: {STORE}\nremote: {{region: auto, anonymous: true}}\n"
        f"cache: {{dir: {folder / 'cache'}, size: 500GB}}\nlanes: {lanes}\nglobal_batch_size: 1024\n"
        f"mixture: {{weights: hours}}\npool: {pool}\n"
    )
    return config


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=1_000)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--pool", type=int, default=16)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(write_setting(given.folder, given.clips, given.lanes, given.pool))
