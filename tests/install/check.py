"""Install the wheel as users do and try it: a fresh environment per extra, outside of the repository.

``python tests/install/check.py`` installs the bare package and each extra with this Python, as constraints.txt says.
``--python 3.12``, which may be repeated, does so with other Pythons, and checks the golden order there. What cannot be
tried is skipped by name: a Python that is not found, and recipes for which there is no CPU build of torch.

Needs pip and nothing else of the environment that it runs in.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
GOLDEN = ROOT / "tests" / "golden" / "check.py"
EXTRAS = ("speech", "chat", "robot")
AT_ONCE = 2  # installations

# One process for all of them: it is importing that takes the time.
HELPS = """
import typer.main
from penstock.cli import app

def show(command, path):
    command.main([*path, "--help"], "penstock", standalone_mode=False)
    print(*path)
    for name in getattr(at(command, path), "commands", {}):
        show(command, [*path, name])

def at(command, path):
    for name in path:
        command = command.commands[name]
    return command

show(typer.main.get_command(app), [])
"""
SPEECH = "import penstock; print(penstock.open('demo-data/demo.yaml', recipe='speech').batch(3)['feats'].shape)"
FOLDER = """
from pathlib import Path
import penstock, yaml
demo = Path("demo-data/chat")
(demo / "folder").mkdir()
(demo / "folder" / "train.jsonl").write_text((demo / "sums.jsonl").read_text())
config = yaml.safe_load((demo / "demo.yaml").read_text())
config["sources"] = [{"name": "sums", "dtype": "conversation", "path": "folder"}]
(demo / "folder.yaml").write_text(yaml.safe_dump(config | {"mixture": {"weights": "equal"}}))
print(penstock.open(demo / "folder.yaml").batch(0)["sources"])
"""
TORCHCODEC = "penstock.robot(store='demo-data/robot/dataset', batch_size=2, decoder='torchcodec').batch(0)"


class Failed(Exception):
    """A check that does not hold."""


class Environment:
    """A fresh virtual environment with the wheel.

    Args:
        folder: of the environment.
        work: the folder that commands run in.
    """

    def __init__(self, python: str, folder: Path, work: Path, requirement: str) -> None:
        self.python = str(folder / "bin" / "python")
        self.work = work
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.variables = plain | {"XDG_CACHE_HOME": str(work / "cache"), "COLUMNS": "120", "NO_COLOR": "1"}
        run([python, "-m", "venv", "--without-pip", str(folder)])
        run([*pip(self.python), "install", "--no-compile", "-c", str(CONSTRAINTS), requirement])

    def __call__(self, *arguments: str, code: int = 0, says: str = "") -> str:
        """Run Python, check how it ends and what it says, and return that."""
        command = [self.python, *arguments]
        done = subprocess.run(command, cwd=self.work, env=self.variables, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode != code or says not in said:
            wanted = f"exit code {code}" + (f" and {says!r}" if says else "")
            raise Failed(f"{' '.join(arguments)}: expected {wanted}; exit code {done.returncode}:\n{said[-3000:]}")
        return said

    def penstock(self, *arguments: str, code: int = 0, says: str = "") -> str:
        return self("-m", "penstock", *arguments, code=code, says=says)

    def needs(self, extra: str, *arguments: str, code: int = 2) -> None:
        """Check that something ends with the message that names an extra."""
        said = self(*arguments, code=code, says=f": pip install 'penstock[{extra}]'")
        if code == 2 and said.count("\n") != 1:
            raise Failed(f"{' '.join(arguments)}: expected one line:\n{said}")


def run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(command)}:\n{done.stdout[-3000:]}")


def pip(python: str) -> list[str]:
    """Return the command of this Python's pip, for the environment of another one."""
    return [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]


def check_commands(use: Environment) -> None:
    """The command itself: its script, its version, and the help of every command."""
    script = str(Path(use.python).with_name("penstock"))
    version = use("-c", "import penstock; print(penstock.__version__)").strip()
    use("-c", f"import subprocess; subprocess.run([{script!r}, '--version'], check=True)", says=f"penstock {version}")
    use("-c", HELPS, says="\neval build\n")


def check_bare(use: Environment) -> None:
    """What needs no extra, and the messages of what does. Leaves the demo's data to the others."""
    use.penstock("demo", says="✓ identical")
    use.penstock("plan", "demo-data/demo.yaml", "--steps", "0:2", says="step\trank\tslot")
    use.penstock("mix", "demo-data/demo.yaml", "--steps", "100", says="assamese")
    use.penstock("where", "demo-data/demo.yaml", "odia_00002", says="odia_00002")
    use("-c", "import penstock; print(penstock.open('demo-data/demo.yaml').batch(12_345)['ids'])", says="_000")
    for extra in ("chat", "robot"):
        use.needs(extra, "-m", "penstock", "demo", extra)
    use.needs("speech", "-c", SPEECH, code=1)
    use.needs("speech", "-m", "penstock", "filelist", "demo-data", "-o", "new.tsv")
    chat = "dict(recipe='chat', batch_size=2, path='demo-data/demo.yaml', dtype='text', chat={'tokenizer': '.'})"
    use.needs("chat", "-c", f"import penstock; penstock.open({chat})", code=1)


def check_speech(use: Environment) -> None:
    use("-c", SPEECH, says="torch.Size([16, 1, 300, 160])")
    use.penstock("replay", "demo-data/demo.yaml", "--steps", "3", "--html", "page.html", says="page.html")
    for extra in ("chat", "robot"):
        use.needs(extra, "-m", "penstock", "demo", extra)


def check_chat(use: Environment) -> None:
    use.penstock("demo", "chat", says="✓ identical")
    use("-c", FOLDER, says="'sums'")


def check_robot(use: Environment) -> None:
    use.penstock("demo", "robot", says="✓ identical")
    use.needs("torchcodec", "-c", f"import penstock; {TORCHCODEC}", code=1)
    use.needs("speech", "-c", SPEECH, code=1)
    use.needs("chat", "-m", "penstock", "demo", "chat")


CHECKS: dict[str, Callable[[Environment], None]] = {
    "": check_bare,
    "speech": check_speech,
    "chat": check_chat,
    "robot": check_robot,
}


def find_python(version: str) -> str | None:
    """Return a Python of a version: one on the PATH that runs, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python3")))]
    for python in filter(None, found):
        if subprocess.run([python, "--version"], capture_output=True).returncode == 0:
            return python
    return None


def has_torch(python: str) -> bool:
    """Return whether a CPU build of torch can be had, as large builds for GPUs are not worth the time."""
    pinned = re.search(r"^torch==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE)
    assert pinned is not None
    wanted = f"torch=={pinned[1]}+cpu"
    with TemporaryDirectory() as folder:
        run([python, "-m", "venv", "--without-pip", folder])
        tried = [*pip(f"{folder}/bin/python"), "install", "--dry-run", "--no-deps", "--only-binary", ":all:", wanted]
        return subprocess.run(tried, capture_output=True).returncode == 0


def check(python: str, wheel: Path, folder: Path, extra: str, *, golden: bool) -> str:
    """Install one environment and check it. Returns a line of the report."""
    started = time.monotonic()
    use = Environment(python, folder / (extra or "bare"), folder / "work", f"{wheel}[{extra}]" if extra else str(wheel))
    installed = time.monotonic()
    check_commands(use)
    CHECKS[extra](use)
    said = f", {use(str(GOLDEN)).strip()}" if golden else ""
    shutil.rmtree(folder / (extra or "bare"))
    times = f"{installed - started:.0f} s to install, {time.monotonic() - installed:.0f} s to check"
    return f"✓ penstock{f'[{extra}]' if extra else ''}{said} ({times})"


def check_python(python: str, wheel: Path, *, other: bool) -> Iterator[str]:
    """Check all environments of a Python. The bare one is first: it makes the data that the others read."""
    with TemporaryDirectory() as temporary, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(temporary)
        (folder / "work").mkdir()
        yield check(python, wheel, folder, "", golden=other)
        if other and not has_torch(python):
            recipes = ", ".join(EXTRAS)
            yield f"- SKIPPED: the recipes {recipes}: there is no CPU build of the pinned torch for this Python"
            return
        yield from pool.map(lambda extra: check(python, wheel, folder, extra, golden=False), EXTRAS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], help="a version, such as 3.12; by default this one")
    asked: list[str] = parser.parse_args().python
    with TemporaryDirectory() as temporary:
        run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", temporary, str(ROOT)])
        [wheel] = Path(temporary).glob("*.whl")
        for version in asked or [""]:
            python = find_python(version) if version else sys.executable
            name = f"Python {version or sys.version.split()[0]}"
            if python is None:
                print(f"{name}\n- SKIPPED: it is not found", flush=True)
                continue
            print(name, flush=True)
            for line in check_python(python, wheel, other=bool(version)):
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"✗ {failed}")
