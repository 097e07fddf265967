"""Run by a launcher, once per process: loaders that Accelerate prepared, of a dataset that knows its rank.

``prepare.py ROOT FOLDER`` writes what a loop over each loader raised, or how many batches it received.
"""

import json
import sys
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import ChainDataset, DataLoader, IterableDataset

from penstock.compat.lerobot import StreamingLeRobotDataset
from tests.datasets.receive import BATCH, tensors

WAYS: dict[str, dict[str, Any]] = {
    "in this process": {},
    "forked workers": {"num_workers": 1, "multiprocessing_context": "fork"},
    "spawned workers": {"num_workers": 1, "multiprocessing_context": "spawn"},
    "a dataset around it": {},
    "several datasets joined": {},
}
LATE = ("forked workers", "several datasets joined")
DISPATCH = {"dispatched": True, "sharded": False}


class Around(IterableDataset[Any]):
    """Somebody's dataset around ours."""

    def __init__(self, dataset: IterableDataset[Any]) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        return iter(self.dataset)


def outcome(loader: Any) -> str:
    try:
        return f"{sum(1 for _ in loader)} batches"
    except RuntimeError as error:
        return str(error)


def main(root: Path, folder: Path) -> None:
    found = {}
    for name, dispatch in DISPATCH.items():
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
        for way, options in WAYS.items():
            dataset: Any = StreamingLeRobotDataset("a/b", root=root, batch_size=BATCH, episode_pool_size=3)
            if way == "a dataset around it":
                dataset = Around(dataset)
            if way == "several datasets joined":
                dataset = ChainDataset([dataset])
            loader = DataLoader(dataset, batch_size=BATCH, collate_fn=tensors, **options)
            if way == "in this process":
                found[f"{name}: not prepared"] = outcome(loader)
            prepared = accelerator.prepare(loader)
            if dispatch and way in LATE and not accelerator.is_main_process:
                continue  # it waits for rank 0, which raises at the first sample, until the launcher ends it
            found[f"{name}: {way}"] = outcome(prepared)
    (folder / f"{accelerator.process_index}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
