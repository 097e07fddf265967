"""Tensor parallel × data parallel: a mesh of 2 × 2 processes, on chat data. Run it again to resume.

    penstock demo chat
    torchrun --standalone --nproc-per-node 4 examples/frameworks/mesh.py \\
        demo-data/chat/demo.yaml demo-data/chat/demo.yaml runs/mesh --steps 40

Both processes of a tensor group get the same batch: the feed takes its rank from the mesh.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("train", help="config of the data to train on")
parser.add_argument("evaluate", help="config of the data to evaluate on, each record once")
parser.add_argument("run", type=Path, help="folder for logs and checkpoints")
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
args.run.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
TOKENS = 512
model = nn.Sequential(nn.Embedding(TOKENS, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, TOKENS))
parallelize_module(model, mesh["tp"], {"1": ColwiseParallel(), "3": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

feed = penstock.open(args.train, mesh=mesh["dp"])
loader = feed.loader()


def log(name, batch, loss):
    name = f"{name}-tp1" if mesh["tp"].get_local_rank() else name
    line = {"step": batch["step"], "world": feed.world, "ids": batch["ids"], "loss": loss.item()}
    with (args.run / f"{name}.{feed.rank}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def loss_of(batch):
    guessed = model(batch["input_ids"] % TOKENS)[:, :-1]
    wanted = batch["labels"][:, 1:]
    return nn.functional.cross_entropy(guessed.flatten(0, 1), (wanted % TOKENS).where(wanted >= 0, -100).flatten())


state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True)) | {"loader": loader}
complete = sorted(args.run.glob("step-*/.metadata"))  # DCP writes the metadata last
if complete:
    dcp.load(state, checkpoint_id=complete[-1].parent)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

while loader.step < args.steps:
    batch = next(loader)
    loss = loss_of(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    log("trained", batch, loss)
    if loader.step % 5 == 0 or loader.step == args.steps:
        state["model"], state["optimizer"] = get_state_dict(model, optimizer)
        dcp.save(state, checkpoint_id=args.run / f"step-{loader.step:06}")
loader.close()
with torch.no_grad():
    for batch in penstock.open(args.evaluate, mesh=mesh["dp"], passes=1).loader():
        log("evaluated", batch, loss_of(batch))
last = dist.barrier(async_op=True)  # holds the last tensors of gloo, whose threads must not free them at exit
last.wait()
dist.destroy_process_group()
