"""A folder is there whole or not at all, also when its maker is killed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.manifest.publish import publish

MAKE = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from penstock.manifest.publish import publish

    def write(folder):
        (folder / "half").write_text("half")
        print("half", flush=True)
        time.sleep(600)

    publish(Path(sys.argv[1]), write)
    """
)


def test_a_maker_killed_half_way_leaves_nothing_in_place_and_nothing_to_clean(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", MAKE, str(out)], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "half\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    publish(out, lambda folder: (folder / "whole").touch())
    assert [path.name for path in out.iterdir()] == ["whole"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "out"]


def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    publish(out, lambda folder: (folder / "old").touch())

    def fail(folder: Path) -> None:
        (folder / "new").touch()
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        publish(out, fail)
    assert [path.name for path in out.iterdir()] == ["old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "out"]


def test_what_is_there_is_replaced_unless_it_is_to_be_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name, keep in (("first", False), ("second", True), ("third", False)):
        publish(out, lambda folder, name=name: (folder / name).touch(), keep=keep)  # type: ignore[misc]
        expected = "first" if name == "second" else name
        assert [path.name for path in out.iterdir()] == [expected]
