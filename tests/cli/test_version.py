"""``penstock --version``."""

import pytest

import penstock
from tests.cli.commands import run


def test_the_version_is_that_of_the_package() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"penstock {penstock.__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_help_names_the_option(arguments: list[str]) -> None:
    assert "--version" in run(*arguments).output


def test_it_stands_before_the_command_and_wins() -> None:
    result = run("--version", "plan", "none.yaml")
    assert (result.exit_code, result.stdout) == (0, f"penstock {penstock.__version__}\n")
