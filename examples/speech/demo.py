"""Data for ``dataset=demo``: twelve small languages made here, every tenth clip held out."""

from pathlib import Path

from penstock.cli.demos.mix_data import make_demo_data


def make_demo(folder: Path) -> None:
    """Write shards, ``train.tsv`` and ``held_out.tsv`` into a folder, unless they are there."""
    if (folder / "held_out.tsv").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for language in make_demo_data(folder):
        print(f"made {language}", flush=True)
    lines = (folder / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "train.tsv").write_text("".join(line for i, line in enumerate(lines) if i % 10))
    (folder / "held_out.tsv").write_text("".join(lines[::10]))
