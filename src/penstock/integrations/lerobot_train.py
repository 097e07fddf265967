"""LeRobot's own training script, with our streaming dataset: ``python -m penstock.integrations.lerobot_train …``.

The options are LeRobot's. The script gets our dataset, a loader that Accelerate does not divide among the ranks once
more, random numbers that depend on the step, and the state of the data in its checkpoints. Knows nothing of policies.
"""

import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch

from penstock.compat.lerobot import StreamingLeRobotDataset
from penstock.compat.lerobot.meta import Metadata
from penstock.compat.randomness import seed_generators
from penstock.config import ConfigError
from penstock.feed.state import StateError
from penstock.plan.draws import key as draw_key
from penstock.runtime.atomicwrite import write_atomically

VERSION = "0.6.1"
STATE = Path("training_state", "penstock.json")  # in a checkpoint

_REPLACED = ("make_train_eval_datasets", "cycle", "save_checkpoint", "submit_to_hf")  # in the script
_REPLACED_CLASSES = ("LeRobotDatasetMetadata", "StreamingLeRobotDataset", "LeRobotDataset")  # in its dataset factory


class LeRobotRun:
    """A run of LeRobot's script in this process.

    Args:
        script: Module ``lerobot.scripts.lerobot_train``.
        factory: Module ``lerobot.datasets.factory``.

    Raises:
        ConfigError: If they lack what is replaced.
    """

    def __init__(self, script: Any, factory: Any) -> None:
        called = inspect.unwrap(script.train).__code__.co_names
        missing = [name for name in (*_REPLACED, "prepare") if name not in called]
        missing += [name for name in _REPLACED_CLASSES if not hasattr(factory, name)]
        if missing:
            raise _misfit(f"as it does not use {missing[0]}")
        self._script = script
        self._factory = factory
        self._make_datasets = factory.make_train_eval_datasets
        self._cycle = script.cycle
        self._save_checkpoint = script.save_checkpoint
        self._map_style = factory.LeRobotDataset
        self._seed: int | None = None
        self._step = 0
        self.dataset: StreamingLeRobotDataset | None = None

    def start(self) -> None:
        """Run the script, with the options of the command line."""
        from accelerate import Accelerator

        theirs = Accelerator.prepare_data_loader

        def prepare_data_loader(accelerator: Any, loader: Any, *given: Any, **named: Any) -> Any:
            if loader.dataset is not self.dataset:
                return theirs(accelerator, loader, *given, **named)
            return undivided(accelerator, loader)

        Accelerator.prepare_data_loader = prepare_data_loader
        for name in _REPLACED:
            setattr(self._script, name, getattr(self, name))
        self._script.main()

    def make_train_eval_datasets(self, cfg: Any) -> tuple[StreamingLeRobotDataset, Any]:
        """Return our dataset to train on and LeRobot's own to evaluate on, or None for the latter."""
        root = str(cfg.dataset.root)
        if cfg.dataset.eval_split and "://" in root:
            raise ConfigError(f"--dataset.eval_split needs a dataset in a folder, and {root} is not one")
        cfg.dataset.streaming = True
        stream = self._stream(cfg)
        made = chain([stream], repeat(self._map_style))  # with eval_split: to train on, then to evaluate on
        self._factory.LeRobotDatasetMetadata = open_meta
        self._factory.StreamingLeRobotDataset = stream
        self._factory.LeRobotDataset = lambda *given, **named: next(made)(*given, **named)
        dataset, held_out = self._make_datasets(cfg)
        if not isinstance(dataset, StreamingLeRobotDataset) or isinstance(held_out, StreamingLeRobotDataset):
            raise _misfit("as it makes its datasets otherwise")
        if cfg.resume:
            self._step = load_state(dataset, cfg.checkpoint_path)
        refuse_idle_ranks(dataset)
        self.dataset = dataset
        self._seed = cfg.seed
        return dataset, held_out

    def _stream(self, cfg: Any) -> Callable[..., StreamingLeRobotDataset]:
        """Return a function that makes our dataset of the arguments of LeRobot's, and of those that it lacks."""
        further = {
            "seed": cfg.seed or 0,
            "batch_size": cfg.batch_size,
            "video_backend": None,  # PyAV, to the same pixels: LeRobot pins a torchcodec that ours is not tested with
            "depth_output_unit": cfg.dataset.depth_output_unit,
            "drop_n_last_frames": getattr(cfg.trainable_config, "drop_n_last_frames", 0),
        }

        def stream(*given: Any, **named: Any) -> StreamingLeRobotDataset:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the last batch of an epoch")  # it advises drop_last, no option here
                return StreamingLeRobotDataset(*given, **{**named, **further})

        return stream

    def cycle(self, loader: Any) -> Iterator[Any]:
        """Yield batches epoch after epoch. Random numbers of a step depend only on the seed, the step and the rank."""
        if getattr(loader, "dataset", None) is not self.dataset or self.dataset is None:
            raise _misfit("as it makes its loader otherwise")
        for batch in self._cycle(loader):
            if self._seed is not None:
                seed_step(draw_key(self._seed, "step", self._step, self.dataset.feed.rank), loader.device)
            self._step += 1
            yield batch

    def save_checkpoint(self, *, checkpoint_dir: Path, step: int, **named: Any) -> None:
        """Save a checkpoint, and the state of the data in it."""
        assert self.dataset is not None
        self._save_checkpoint(checkpoint_dir=checkpoint_dir, step=step, **named)
        state = json.dumps(self.dataset.state_dict(step))
        write_atomically(checkpoint_dir / STATE, [state.encode()])

    @staticmethod
    def submit_to_hf(cfg: Any) -> None:
        """Refuse to run elsewhere: that would be LeRobot's script with its own dataset."""
        raise ConfigError(f"--job.target={cfg.job.target} would run without Penstock: start this command there instead")


def open_meta(repo_id: str, **named: Any) -> Metadata:
    """Return the metadata of a dataset, given the arguments of ``LeRobotDatasetMetadata``."""
    return StreamingLeRobotDataset(repo_id, **named, rank=0, world_size=1).meta


def undivided(accelerator: Any, loader: Any) -> Any:
    """Return a loader prepared by Accelerate, which moves its batches to the device and leaves them as they are."""
    from accelerate.data_loader import prepare_data_loader

    return prepare_data_loader(
        loader,
        accelerator.device,
        num_processes=1,
        process_index=0,
        put_on_device=accelerator.device_placement,
        dispatch_batches=False,
        non_blocking=accelerator.non_blocking,
    )


def seed_step(seed: int, device: torch.device | None) -> None:
    """Seed the global generators, and that of the device."""
    seed_generators(seed)
    if device is not None and device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def load_state(dataset: StreamingLeRobotDataset, checkpoint: Path) -> int:
    """Continue where a checkpoint was saved. Returns its step.

    Raises:
        StateError: If it has no state of the data, or one of another run.
    """
    path = checkpoint / STATE
    if not path.is_file():
        raise StateError(
            f"{checkpoint} has no {STATE}: where its data stopped is not known, because another script has saved it; "
            f"start a new run from its weights, with --policy.path={checkpoint / 'pretrained_model'}"
        )
    state = json.loads(path.read_bytes())
    try:
        dataset.load_state_dict(state)
    except StateError as error:
        raise StateError(f"{path}: {error}") from None
    return int(state["batches_consumed"])


def refuse_idle_ranks(dataset: StreamingLeRobotDataset) -> None:
    """Check that each rank has frames in each step: LeRobot's loop takes one batch per step and rank.

    Raises:
        ConfigError: If the last batch of an epoch has fewer frames than there are ranks.
    """
    world = dataset.feed.world
    last = min(dataset.last_batches())
    if last < world:
        raise ConfigError(
            f"--batch_size={dataset.batch_size} on {world} processes leaves {last} of {dataset.num_frames} frames for "
            "the last batch of an epoch, fewer than there are processes: use another --batch_size"
        )


def _misfit(reason: str) -> ConfigError:
    return ConfigError(
        f"this version of lerobot's training script does not fit, {reason}: pip install lerobot=={VERSION}"
    )


def main() -> None:
    """Run LeRobot's training script."""
    try:
        from lerobot.datasets import factory
        from lerobot.scripts import lerobot_train
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        sys.exit(f"error: LeRobot's training script needs {package}: pip install 'lerobot[training]=={VERSION}'")
    try:
        LeRobotRun(lerobot_train, factory).start()
    except (ConfigError, StateError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
