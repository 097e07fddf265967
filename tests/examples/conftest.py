"""The speech example on a few small clips: its modules importable, its scripts run as a user runs them."""

import sys
from pathlib import Path

import pytest

SPEECH = Path(__file__).parents[2] / "examples" / "speech"
sys.path.insert(0, str(SPEECH))


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of shards in 12 languages with ``train.tsv`` and ``held_out.tsv``, the latter of 6 clips."""
    from penstock.cli.demos.mix_data import make_demo_data

    folder = tmp_path_factory.mktemp("clips")
    for _ in make_demo_data(folder, clips=80, shards=2):
        pass
    lines = (folder / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "held_out.tsv").write_text("".join(lines[::15]))
    (folder / "train.tsv").write_text("".join(line for i, line in enumerate(lines) if i % 15))
    return folder
