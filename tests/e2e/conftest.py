"""Speech-like clips in 12 languages, and robot episodes: made once a session."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from penstock.cli.demos.mix_data import make_demo_data
from tests.e2e.robots import Robots, make_robots


@pytest.fixture(scope="session")
def made_clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    for _ in make_demo_data(folder, clips=200):
        pass
    return folder


@pytest.fixture
def clips(made_clips: Path, tmp_path: Path) -> Path:
    """A copy to do with as one likes."""
    shutil.copytree(made_clips, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="session")
def robots_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Robots]:
    """Makes a dataset with its videos' headers "in front" or "at the end"."""
    return cache(lambda header: make_robots(tmp_path_factory.mktemp("robots"), header_in_front=header == "in front"))
