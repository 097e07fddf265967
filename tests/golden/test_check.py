"""The order is a promise: the golden file is checked as CI checks it, with nothing installed but numpy."""

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"


@pytest.fixture(scope="module")
def only_numpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import from that holds numpy and nothing else."""
    folder = tmp_path_factory.mktemp("only-numpy")
    installed = Path(numpy.__file__).parents[1]
    for package in installed.glob("numpy*"):
        (folder / package.name).symlink_to(package)
    return folder


def run(only_numpy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run python without site-packages."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCES), str(only_numpy)])}
    return subprocess.run([sys.executable, "-S", *arguments], env=environment, capture_output=True, text=True)


def test_the_order_is_the_one_that_the_golden_file_pins(only_numpy: Path) -> None:
    done = run(only_numpy, str(HERE / "check.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"numpy {numpy.__version__}: the same" in done.stdout


def test_a_different_order_is_an_error_that_names_what_moved(only_numpy: Path, tmp_path: Path) -> None:
    pinned = (HERE / "order.json").read_text()
    (tmp_path / "check.py").write_text((HERE / "check.py").read_text())
    (tmp_path / "order.json").write_text(pinned.replace('"permutation": [', '"permutation": [0, '))
    done = run(only_numpy, str(tmp_path / "check.py"))
    assert done.returncode == 1
    assert done.stderr == "the order differs from order.json: draws: permutation\n"
    assert run(only_numpy, str(tmp_path / "check.py"), "--write").returncode == 0
    assert (tmp_path / "order.json").read_text() == pinned


def test_penstock_and_all_of_its_plan_import_with_numpy_alone(only_numpy: Path) -> None:
    modules = sorted(path.stem for path in (SOURCES / "penstock" / "plan").glob("*.py") if path.stem != "__init__")
    assert "plan" in modules
    imports = "; ".join(["import penstock", *(f"import penstock.plan.{module}" for module in modules)])
    done = run(only_numpy, "-c", imports)
    assert (done.returncode, done.stderr) == (0, "")
    assert run(only_numpy, "-c", "import pytest").returncode == 1  # so that the two lines above mean something
