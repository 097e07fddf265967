"""One video per encoding, made once a session."""

from collections.abc import Callable

import pytest

from tests.videos import ENCODINGS, write_numbered

LENGTHS = (20, 7, 33)  # frames of the clips in each video


@pytest.fixture(scope="session")
def video_bytes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """Returns the file of an encoding, by its name."""
    made: dict[str, bytes] = {}

    def of(name: str) -> bytes:
        if name not in made:
            made[name] = write_numbered(tmp_path_factory.mktemp("video") / "file.mp4", LENGTHS, ENCODINGS[name])
        return made[name]

    return of
