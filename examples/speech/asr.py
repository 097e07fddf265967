"""Recognition: a small CTC model on whole clips with their texts, in batches of one length. Run it again to resume.

    python examples/speech/asr.py --demo demo-data/asr
    torchrun --standalone --nproc-per-node 2 examples/speech/asr.py demo-data/asr/run.yaml runs/asr --steps 40

The first command makes clips in which every letter is a tone. Real data need an index and a config: docs/speech.md. A
step has several units, which are batches of up to ``batch: {seconds: …}`` each: any number of processes that divides
their number gives the same steps.
"""

import argparse
import io
import json
import os
import string
import tarfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import soundfile
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import penstock

LETTERS = " '" + string.ascii_lowercase
CONFIG = """\
recipe: speech
filelist: train.tsv
store: .
seed: 7
batch: {seconds: 20, units: 4}
speech: {crop: full, text: true}
usage: {log: usage.jsonl}
"""


def make_demo(folder):
    """Write 240 clips of 1 to 7 seconds and their texts, in four shards."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for shard in range(4):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for number in range(60):
                name = f"clip-{shard}-{number:02}"
                text = "".join(random.choice(list("abcdefgh "), int(random.integers(8, 60)))).strip() or "a"
                sound = np.concatenate([tone(letter) for letter in text])
                out = io.BytesIO()
                soundfile.write(out, sound, 16_000, format="FLAC")
                for extension, data in (("flac", out.getvalue()), ("txt", text.encode())):
                    entry = tarfile.TarInfo(f"{name}.{extension}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
                lines.append(f"{shard}.tar\t{name}\ttones\t{len(sound) / 16_000}\n")
    (folder / "train.tsv").write_text("".join(lines))
    (folder / "run.yaml").write_text(CONFIG)
    print(f"{folder}/run.yaml: 240 clips; train with  python examples/speech/asr.py {folder}/run.yaml runs/asr")


def tone(letter):
    """Return 0.12 s of the tone of a letter, silence for a space."""
    time = np.arange(1_920) / 16_000
    pitch = 300 * 1.12 ** (ord(letter) % 32)
    return 0.2 * np.sin(2 * np.pi * pitch * time) * np.hanning(len(time)) * (letter != " ")


class Recognizer(torch.nn.Module):
    """Two convolutions over W2V-BERT features, and a letter per row of 20 ms."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv1d(160, 64, 5, padding=2),
            torch.nn.GELU(),
            torch.nn.Conv1d(64, 64, 5, padding=2),
            torch.nn.GELU(),
            torch.nn.Conv1d(64, 1 + len(LETTERS), 1),
        )

    def forward(self, feats):
        return self.layers(feats.squeeze(1).transpose(1, 2)).permute(2, 0, 1).log_softmax(-1)


def letters_of(text):
    """Return the letters of a text as numbers from 1 on, as 0 is the blank of CTC. Other characters are left out."""
    return torch.tensor([1 + LETTERS.index(letter) for letter in text.lower() if letter in LETTERS], dtype=torch.long)


def losses_of(model, batch):
    """Return the CTC loss of each clip."""
    targets = [letters_of(text) for text in batch["text"]]
    lengths = torch.tensor([len(target) for target in targets])
    rows = batch["feats_mask"].sum(1)
    return torch.nn.functional.ctc_loss(
        model(batch["feats"]), torch.cat(targets), rows, lengths, reduction="none", zero_infinity=True
    )


def train(args):
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    feed = penstock.open(args.config)
    torch.manual_seed(0)
    model = Recognizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = feed.loader(threads=1)
    checkpoint = args.run / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    trained = DistributedDataParallel(model) if feed.world > 1 else model

    args.run.mkdir(parents=True, exist_ok=True)
    while loader.step < args.steps:
        batch = next(loader)
        is_last = loader.step > batch["step"]  # this was the rank's last unit of the step
        with nullcontext() if is_last or feed.world == 1 else trained.no_sync():
            losses = losses_of(trained, batch)
            # DDP takes the mean over ranks; the loss of a step is the mean over all clips of all units.
            (losses.sum() * feed.world / batch["global_samples"]).backward()
        feed.report(batch["step"], losses)
        line = {"step": batch["step"], "unit": batch["unit"], "ids": batch["ids"], "loss": losses.sum().item()}
        with (args.run / f"trained.{feed.rank}.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")
        if not is_last:
            continue
        optimizer.step()
        optimizer.zero_grad()
        if (loader.step % 10 == 0 or loader.step == args.steps) and feed.rank == 0:
            print(f"step {loader.step}: loss {losses.mean().item():.2f}, {len(batch['ids'])} clips in the last unit")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
    loader.close()
    if dist.is_initialized():
        last = dist.barrier(async_op=True)  # holds the last tensors of gloo, whose threads must not free them at exit
        last.wait()
        dist.destroy_process_group()


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("config", type=Path, help="config of the data to train on; with --demo, the folder to make")
parser.add_argument("run", type=Path, nargs="?", default=Path("runs/asr"), help="folder for logs and checkpoints")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--demo", action="store_true", help="make clips and a config instead of training")
args = parser.parse_args()
make_demo(args.config) if args.demo else train(args)
