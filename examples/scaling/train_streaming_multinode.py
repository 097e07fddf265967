"""Train a policy on many nodes from a streamed LeRobotDataset, and go on exactly where a run stopped.

    accelerate launch examples/scaling/train_streaming_multinode.py --repo-id lerobot/pusht --folder runs/pusht
    accelerate launch … --repo-id lerobot/pusht --dummy          # no model: how fast does data come?
    python examples/scaling/train_streaming_multinode.py --demo --folder runs/demo

There is no DistributedSampler: the dataset finds its rank, and shares each epoch among the ranks. Start the command
again with the same ``--folder`` and it goes on from its last checkpoint, also with other numbers of processes or
workers.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device, set_seed
from torch.utils.data import DataLoader

from penstock.compat.lerobot import StreamingLeRobotDataset
from policy import TinyPolicy


class Position(NamedTuple):
    """Where a run is.

    Attributes:
        step: optimizer steps so far.
        epoch: the epoch.
        batches: of the epoch that were used.
        samples: of the epoch that were used, by all ranks.
    """

    step: int = 0
    epoch: int = 0
    batches: int = 0
    samples: int = 0


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"it takes at least 1, not {number}")
    return number


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a policy from a streamed LeRobotDataset.")
    source = parser.add_argument_group("data")
    source.add_argument("--repo-id", default="penstock/demo", help="the dataset on the hub, ORG/NAME")
    source.add_argument("--root", help="the folder or URL of the dataset, in place of the hub")
    source.add_argument("--demo", action="store_true", help="write a small dataset into the run folder and use it")
    source.add_argument("--batch-size", type=positive, default=8, help="per process")
    source.add_argument("--num-workers", type=int, default=2, help="per process")
    source.add_argument("--episode-pool-size", type=positive, default=256, help="episodes that frames are drawn from")
    source.add_argument("--horizon", type=positive, default=8, help="number of actions to predict")
    source.add_argument("--cache-dir", help="folder of the node cache, on a local disk")
    source.add_argument("--cache-size", default="50GB", help="bound of the node cache")
    run = parser.add_argument_group("run")
    run.add_argument("--folder", type=Path, default=Path("runs/streaming"), help="folder of checkpoints and logs")
    run.add_argument("--steps", type=positive, default=200, help="optimizer steps in all")
    run.add_argument("--seed", type=int, default=42)
    run.add_argument("--lr", type=float, default=1e-3, help="learning rate")
    run.add_argument("--hidden", type=positive, default=256, help="width of the policy")
    run.add_argument("--checkpoint-every", type=positive, default=50, help="number of steps")
    run.add_argument("--log-every", type=positive, default=10, help="number of steps")
    run.add_argument("--dummy", action="store_true", help="only load data, and report the throughput")
    return parser.parse_args()


def make_dataset(args: argparse.Namespace, accelerator: Accelerator) -> StreamingLeRobotDataset:
    root = args.root
    if args.demo:
        root = args.folder / "demo-data"
        if accelerator.is_main_process and not (root / "meta" / "info.json").is_file():
            from penstock.cli.demos.robot_data import make_robot_data

            for _ in make_robot_data(root, episodes=9):
                pass
        accelerator.wait_for_everyone()
    options: dict[str, Any] = {
        "root": root,
        "seed": args.seed,
        "episode_pool_size": args.episode_pool_size,
        "return_uint8": True,  # a quarter of the bytes on their way to the device
        "batch_size": args.batch_size,
    }
    if args.cache_dir:
        options["cache"] = {"dir": args.cache_dir, "size": args.cache_size}
    fps = StreamingLeRobotDataset(args.repo_id, **options).fps
    windows = {"action": [frame / fps for frame in range(args.horizon)]}
    return StreamingLeRobotDataset(args.repo_id, delta_timestamps=windows, **options)


def batches(
    dataset: StreamingLeRobotDataset, loader: DataLoader[Any], position: Position, size: int
) -> Iterator[tuple[Position, Any]]:
    """Yield batches for ever, with the position after each of them.

    Args:
        dataset: the dataset of the loader.
        loader: each ``for`` over it is an epoch.
        position: where the dataset begins.
        size: samples of a batch of all ranks.
    """
    if dataset.num_frames < size:
        raise ValueError(
            f"an epoch has {dataset.num_frames} frames, and a batch of all ranks {size}: use smaller batches"
        )
    step, epoch, used, samples = position
    while True:
        # Only batches that are full on every rank: all ranks take the same number of steps.
        for batch in islice(loader, (dataset.num_frames - samples) // size):
            step += 1
            used += 1
            samples += size
            yield Position(step, epoch, used, samples), batch
        epoch += 1
        used = 0
        samples = 0


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint as a whole: a run that is killed leaves the one before."""
    unfinished = path.with_suffix(".part")
    torch.save(content, unfinished)
    os.replace(unfinished, path)


def train(args: argparse.Namespace, accelerator: Accelerator) -> None:
    """Train to the last step, from the last checkpoint on."""
    set_seed(args.seed)
    dataset = make_dataset(args, accelerator)
    model = TinyPolicy(dataset.meta.features, dataset.meta.camera_keys, args.horizon, args.hidden)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=args.lr))
    checkpoint = args.folder / "checkpoint.pt"
    position = Position()
    if checkpoint.is_file():
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
        accelerator.unwrap_model(model).load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        dataset.load_state_dict(saved["stream"])
        position = Position(**saved["position"])
        accelerator.print(f"resumed at step {position.step}: epoch {position.epoch}, batch {position.batches}")
    loader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.num_workers, drop_last=True)
    size = args.batch_size * accelerator.num_processes
    began = time.perf_counter()
    left = islice(batches(dataset, loader, position, size), max(0, args.steps - position.step))
    with (args.folder / f"steps-{accelerator.process_index}.jsonl").open("a") as log:
        for taken, (here, batch) in enumerate(left, 1):
            loss = model(send_to_device(batch, accelerator.device))
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            line = {"step": here.step, "epoch": here.epoch, "loss": loss.item(), "index": batch["index"].tolist()}
            log.write(json.dumps(line) + "\n")
            log.flush()
            if here.step % args.log_every == 0:
                rate = taken * size / (time.perf_counter() - began)
                accelerator.print(f"step {here.step}: loss {loss.item():.4f}, {rate:,.0f} frames/s")
            if here.step % args.checkpoint_every == 0 or here.step == args.steps:
                accelerator.wait_for_everyone()
                if accelerator.is_main_process:
                    content = {
                        "model": accelerator.unwrap_model(model).state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "stream": dataset.state_dict(here.batches, epoch=here.epoch),
                        "position": here._asdict(),
                    }
                    save(checkpoint, content)
    accelerator.print(f"done: {args.steps} steps")


def load_only(args: argparse.Namespace, accelerator: Accelerator) -> None:
    """Load data and report how fast it comes, per process, node and run."""
    dataset = make_dataset(args, accelerator)
    loader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.num_workers, drop_last=True)
    size = args.batch_size * accelerator.num_processes
    times = [time.perf_counter()]
    for here, _ in islice(batches(dataset, loader, Position(), size), args.steps):
        times.append(time.perf_counter())
        if here.step % args.log_every == 0:
            accelerator.print(f"step {here.step}: {here.step * size / (times[-1] - times[0]):,.0f} frames/s")
    rate = (len(times) - 2) * args.batch_size / max(times[-1] - times[1], 1e-9)
    own = torch.tensor([rate, times[1] - times[0]], device=accelerator.device)
    rates, waits = accelerator.gather(own).cpu().view(-1, 2).unbind(1)
    per_node = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    summary = {
        "processes": accelerator.num_processes,
        "frames_per_second": rates.sum().item(),
        "frames_per_second_per_node": rates.sum().item() * per_node / accelerator.num_processes,
        "first_batch_seconds": waits.max().item(),
        "decoders": dataset.video_decoder_cache.stats(),
    }
    if accelerator.is_main_process:
        (args.folder / "dummy.json").write_text(json.dumps(summary, indent=1))
    accelerator.print(json.dumps(summary))


def main() -> None:
    args = arguments()
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    args.folder.mkdir(parents=True, exist_ok=True)
    (load_only if args.dummy else train)(args, accelerator)
    accelerator.end_training()


if __name__ == "__main__":
    main()
