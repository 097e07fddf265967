"""DDP on robot data: a tiny policy, an evaluation, checkpoints by torch.distributed.checkpoint. Run it again to resume.

    penstock demo robot
    torchrun --standalone --nproc-per-node 2 examples/frameworks/ddp_robot.py \\
        demo-data/robot/demo.yaml demo-data/robot/demo.yaml runs/robot --steps 40
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("train", help="config of the data to train on")
parser.add_argument("evaluate", help="config of the data to evaluate on, each frame once")
parser.add_argument("run", type=Path, help="folder for logs and checkpoints")
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()

dist.init_process_group("gloo")
args.run.mkdir(parents=True, exist_ok=True)


def log(name, batch, loss):
    line = {"step": batch["step"], "world": dist.get_world_size(), "ids": batch["ids"], "loss": loss.item()}
    with (args.run / f"{name}.{dist.get_rank()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def error(model, batch):
    return (model(batch["observation.state"].flatten(1)) - batch["action"].flatten(1)).square().mean(1)


feed = penstock.open(args.train)
sample = feed.batch(0)
torch.manual_seed(0)
states, actions = (sample[key].flatten(1).shape[1] for key in ("observation.state", "action"))
layers = torch.nn.Linear(states, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, actions)
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = feed.loader(workers=1)

# A checkpoint is complete if it has its metadata, which DCP writes last. The loader is one of its parts.
complete = sorted(args.run.glob("step-*/.metadata"))
if complete:
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments, "loader": loader}, checkpoint_id=complete[-1].parent)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)

while loader.step < args.steps:
    batch = next(loader)
    loss = error(model, batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log("trained", batch, loss)
    if loader.step % 5 == 0 or loader.step == args.steps:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "loader": loader}
        dcp.save(state, checkpoint_id=args.run / f"step-{loader.step:06}")
loader.close()

total = torch.zeros(2)
with torch.no_grad():
    for batch in penstock.open(args.evaluate, passes=1).loader():
        errors = error(model.module, batch)[batch["valid"]]  # without the padding of the last batch
        total += torch.tensor([errors.sum(), len(errors)])
        log("evaluated", batch, errors.sum())
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(f"step {args.steps}: error {(total[0] / total[1]).item():.4f} over {int(total[1])} frames")
last = dist.barrier(async_op=True)  # holds the last tensors of gloo, whose threads must not free them at exit
last.wait()
dist.destroy_process_group()
