"""Accelerate on speech, with gradient accumulation, an evaluation and its own checkpoints. Run it again to resume.

    penstock demo
    torchrun --standalone --nproc-per-node 2 examples/frameworks/accelerate_speech.py \\
        demo-data/demo.yaml demo-data/demo.yaml runs/speech --steps 40

The batches are waveforms of half a second; the model predicts how loud each one is.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import send_to_device

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("train", help="config of the data to train on")
parser.add_argument("evaluate", help="config of the data to evaluate on, each clip once")
parser.add_argument("run", type=Path, help="folder for logs and checkpoints")
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()

accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=2)  # before the first feed
args.run.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv1d(1, 8, 64, stride=32), torch.nn.GELU(), torch.nn.Conv1d(8, 1, 1))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))

loader = penstock.speech(args.train, crop="0.5s", features=False).loader(threads=2)  # not prepared: it knows its rank
accelerator.register_for_checkpointing(loader)


def log(name, batch, loss):
    line = {"step": batch["step"], "world": accelerator.num_processes, "ids": batch["ids"], "loss": loss.item()}
    with (args.run / f"{name}.{accelerator.process_index}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def error(batch):
    """Return the squared error of the loudness of each clip."""
    wav = batch["wav"]
    return (model(wav.unsqueeze(1)).mean((1, 2)) - wav.square().mean(1)).square()


# A checkpoint is complete when its folder has its final name.
complete = sorted(args.run.glob("step-??????"))
if complete:
    accelerator.load_state(complete[-1])

while loader.step < args.steps:
    batch = send_to_device(next(loader), accelerator.device)
    with accelerator.accumulate(model):
        loss = error(batch).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    log("trained", batch, loss)
    if loader.step % 6 == 0 or loader.step == args.steps:  # a multiple of the accumulation
        folder = args.run / f"step-{loader.step:06}"
        accelerator.save_state(folder.with_suffix(".part"))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            folder.with_suffix(".part").rename(folder)
loader.close()

errors = []
with torch.no_grad():
    for batch in penstock.speech(args.evaluate, crop="0.5s", features=False, passes=1).loader():
        batch = send_to_device(batch, accelerator.device)
        errors.append(accelerator.gather(error(batch)[batch["valid"]].sum(0, keepdim=True)))
        log("evaluated", batch, errors[-1].sum())
accelerator.print(f"step {args.steps}: error {torch.cat(errors).sum().item():.4f}")
if dist.is_initialized():
    last = dist.barrier(async_op=True)  # holds the last tensors of gloo, whose threads must not free them at exit
    last.wait()
accelerator.end_training()
