"""torchcodec gives the same pixels as PyAV. It needs FFmpeg's libraries, which not every machine has."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.curate.robot.writer import Episode, Layout, write_dataset
from penstock.media.video.encoding import Encoding
from tests.cli.commands import run

try:
    from torchcodec.decoders import VideoDecoder  # noqa: F401
except (ImportError, RuntimeError, OSError) as error:
    pytest.skip(f"torchcodec is not installed, or finds no FFmpeg: {error}", allow_module_level=True)

WINDOW = {"cam": [-0.2, 0.0, 0.1]}


@pytest.fixture(scope="module", params=[Encoding("h264", 4, 2), Encoding("h264", 2, 0, header_in_front=False)])
def dataset(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 200, 64, dtype=np.uint8)[None, None, :, None]
    episodes = [
        Episode(
            "t",
            {"cam": ramp + rng.integers(0, 50, (12, 1, 1, 3)).astype(np.uint8) + np.zeros((12, 48, 64, 3), np.uint8)},
        )
        for _ in range(4)
    ]
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset(folder, episodes, fps=10, layout=Layout(encoding=request.param))
    return folder


def opened(dataset: Path, decoder: str) -> Any:
    return penstock.robot(store=str(dataset), batch_size=8, passes=1, decoder=decoder, delta_timestamps=WINDOW)


def test_pixels_are_those_of_pyav_also_at_both_ends_of_every_episode(dataset: Path) -> None:
    pyav = opened(dataset, "pyav")
    torchcodec = opened(dataset, "torchcodec")
    assert len(pyav) == 6
    for step in range(len(pyav)):
        expected = pyav.batch(step)
        found = torchcodec.batch(step)
        assert found["bad"] == [] and np.array_equal(expected["cam"], found["cam"])
    stats = torchcodec.recipes["robot"].decoders.stats()
    assert stats["misses"] == 4 and stats["hits"] > 10, "a decoder per episode, which is kept"


def test_of_an_indexed_dataset_no_wrong_frame_is_served(dataset: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(dataset, tmp_path / "copy"))
    keys = {"store": str(folder), "batch_size": 8, "passes": 1, "max_bad": 1.0}
    (tmp_path / "run.yaml").write_text(json.dumps({"recipe": "robot", **keys}))
    whole = penstock.robot(**keys, decoder="torchcodec")
    expected = [whole.batch(step) for step in range(len(whole))]
    assert run("index", tmp_path / "run.yaml").exit_code == 0
    path = next(folder.rglob("*.mp4"))
    data = path.read_bytes()
    random = np.random.default_rng(3)
    for at in random.integers(data.index(b"mdat") + 8, len(data) - 8, 6).tolist():
        path.write_bytes(data[:at] + bytes(byte ^ 0x5A for byte in data[at : at + 4]) + data[at + 4 :])
        feed = penstock.robot(**keys, decoder="torchcodec")
        refused = 0
        for step, good in enumerate(expected):
            found = feed.batch(step)
            refused += len(found["bad"])
            for row in np.flatnonzero(found["valid"]).tolist():
                assert found["ids"][row] == good["ids"][row] and np.array_equal(found["cam"][row], good["cam"][row])
        assert refused or at > data.rindex(b"moov") > data.index(b"mdat")
        feed.close()
