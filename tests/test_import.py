"""What ``import penstock`` costs, and what works in an installation without extras."""

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distribution, requires
from pathlib import Path
from pkgutil import walk_packages

import pytest

import penstock
from tests.shards import small_run, write_shards

SOURCES = Path(__file__).parents[1] / "src"
HEAVY = ("torch", "pyarrow", "pydantic", "obstore", "numpy", "yaml", "typer", "rich", "soundfile", "transformers")
# What needs an extra as soon as it is imported. Functions import these modules where they use them.
WITH_EXTRAS = {
    "penstock.cli.demos.chat_model",
    "penstock.compat",
    "penstock.curate.robot.writer",
    "penstock.integrations",
    "penstock.media",
    "penstock.recipes.collate",
    "penstock.recipes.processor",
    "penstock.runtime.torch_threads",
}


def printed(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_penstock_loads_nothing_heavy() -> None:
    assert printed(f"import sys, penstock; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


def test_a_feed_of_raw_records_never_loads_torch() -> None:
    script = "import sys, penstock.feed, penstock.loader, penstock.pipelines; print('torch' in sys.modules)"
    assert printed(script) == "False"


# Exports of packages

PACKAGES = sorted(path.parent for path in (SOURCES / "penstock").rglob("__init__.py"))


def dotted(folder: Path) -> str:
    return ".".join(folder.relative_to(SOURCES).parts)


@pytest.mark.parametrize("folder", PACKAGES, ids=dotted)
def test_a_package_has_what_it_exports_and_its_type_checked_imports_are_the_lazy_ones(folder: Path) -> None:
    package = import_module(dotted(folder))
    exported = list(getattr(package, "__all__", ()))
    assert [name for name in exported if not hasattr(package, name)] == []
    tree = ast.parse((folder / "__init__.py").read_text())
    checked = [
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock.")
        for alias in node.names
    ]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    tables = [ast.literal_eval(call.args[1]) for call in calls if ast.unparse(call.func) == "lazy_exports"]
    lazy = [(module, name) for table in tables for module, names in table.items() for name in names]
    assert lazy == checked or not tables
    assert {name for _, name in lazy} <= {*exported}


def test_names_of_the_reference_are_exported_by_the_package_that_it_shows() -> None:
    pages = (SOURCES.parent / "docs" / "api").glob("*.md")
    shown = [name for page in pages for name in re.findall(r"^::: (penstock[\w.]+)$", page.read_text(), re.MULTILINE)]
    assert len(shown) > 50
    homes = [name.rpartition(".")[::2] for name in shown]
    assert [name for package, name in homes if name not in import_module(package).__all__] == []


# Without extras


def base_distributions(name: str, found: set[str]) -> set[str]:
    """Return the distributions that ``pip install`` of one brings without any extra, added to those that are found."""
    if name not in found:
        found.add(name)
        for requirement in requires(name) or ():
            if "extra ==" not in requirement and "Windows" not in requirement:
                base_distributions(re.split(r"[^\w.-]", requirement)[0], found)
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import from that holds the base dependencies and nothing else."""
    folder = tmp_path_factory.mktemp("base")
    for name in base_distributions("penstock", set()):
        installed = distribution(name)
        for top in {path.parts[0] for path in installed.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(str(installed.locate_file(top)))
    return folder


def run(base: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script without site-packages: nothing is installed but Penstock and its base dependencies."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCES), str(base)])}
    return subprocess.run([sys.executable, "-S", "-c", script], env=environment, capture_output=True, text=True)


def test_every_module_that_commands_and_pipelines_reach_imports_without_extras(base: Path) -> None:
    done = run(base, "import penstock.cli, penstock.pipelines")
    assert (done.returncode, done.stderr) == (0, "")
    assert run(base, "import torch").returncode == 1  # so that the lines above mean something


def test_only_the_named_modules_need_an_extra_when_imported(base: Path) -> None:
    names = [module.name for module in walk_packages(penstock.__path__, "penstock.", onerror=print)]
    expected = sorted(
        name
        for name in names
        if not name.endswith("__main__") and not any(f"{name}.".startswith(f"{each}.") for each in WITH_EXTRAS)
    )
    assert "penstock.cli.eval" in expected and "penstock.text.texts" in expected
    done = run(base, f"from importlib import import_module\nfor name in {expected}: import_module(name)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("recipe", ["speech", "chat", "robot"])
def test_a_run_without_the_packages_of_its_recipe_names_the_extra(base: Path, tmp_path: Path, recipe: str) -> None:
    write_shards(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"prompt": "1?", "completion": "1!"}\n')
    robot = Path(__file__).parent / "data" / "robot" / "two_cameras_h264"
    own = {
        "speech": {**small_run(tmp_path), "filelist": str(tmp_path / "train.tsv"), "cache": None},
        "chat": {"path": str(tmp_path / "a.jsonl"), "dtype": "conversation", "chat": {"tokenizer": str(tmp_path)}},
        "robot": {"store": str(robot)},
    }
    config = {"recipe": recipe, "batch_size": 2, **own[recipe]}
    done = run(base, f"import penstock; penstock.open({config}).batch(0)")
    missing = "transformers" if recipe == "chat" else "torch"
    message = f"recipe: {recipe} needs {missing}: pip install 'penstock[{recipe}]'"
    assert done.stderr.splitlines()[-1] == f"penstock.config.errors.ConfigError: {message}"


@pytest.mark.parametrize("demo", ["chat", "robot"])
def test_a_demo_without_its_packages_names_the_extra(base: Path, tmp_path: Path, demo: str) -> None:
    arguments = ["penstock", "demo", demo, "--dir", str(tmp_path / "demo")]
    done = run(base, f"import sys, penstock.cli; sys.argv = {arguments}; penstock.cli.app()")
    assert done.returncode == 2
    assert done.stderr == f"error: penstock demo {demo} needs torch: pip install 'penstock[{demo}]'\n"
    assert not (tmp_path / "demo").exists()
