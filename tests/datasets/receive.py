"""Run by a launcher, once per process: writes which frames this process receives. ``receive.py ROOT FOLDER``"""

import json
import sys
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch.utils.data import DataLoader, default_collate

from penstock.compat.lerobot import StreamingLeRobotDataset

BATCH = 4


def tensors(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Accelerate sends tensors to the other processes, and no texts."""
    return default_collate(
        [{key: value for key, value in item.items() if not isinstance(value, str)} for item in items]
    )


def main(root: Path, folder: Path) -> None:
    accelerator = Accelerator(cpu=True)

    def dataset(**options: Any) -> StreamingLeRobotDataset:
        return StreamingLeRobotDataset("a/b", root=root, batch_size=BATCH, episode_pool_size=3, **options)

    loaders = {
        "plain": DataLoader(dataset(), batch_size=BATCH),
        "workers": DataLoader(dataset(), batch_size=BATCH, num_workers=2),
        "prepared": accelerator.prepare(
            DataLoader(dataset(rank=0, world_size=1), batch_size=BATCH, collate_fn=tensors)
        ),
    }
    received: dict[str, Any] = {
        name: [[batch["index"].tolist() for batch in loader] for _ in range(2)] for name, loader in loaders.items()
    }
    state = {"batches_consumed": 9, "batch_size": BATCH}  # of epoch 1
    resumed = dataset()
    resumed.load_state_dict(state)
    received["resumed"] = [[batch["index"].tolist() for batch in DataLoader(resumed, batch_size=BATCH)]]
    received["world"] = accelerator.num_processes
    received["world of the dataset"] = resumed.feed.world
    (folder / f"{accelerator.process_index}.json").write_text(json.dumps(received))
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
