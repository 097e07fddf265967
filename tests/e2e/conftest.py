"""Speech-like clips in 12 languages, made once a session."""

import shutil
from pathlib import Path

import pytest

from penstock.cli.demos.mix_data import make_demo_data


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
