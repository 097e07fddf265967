"""Tests that need frameworks, and the table of what they show.

``make test-frameworks`` runs them in an environment of its own. A test that shows a capability of a framework is marked
``@pytest.mark.shows("Lightning", "evaluation")``. A complete run compares the table in docs/frameworks.md with
the marks of the tests that passed; ``pytest tests/frameworks --write-table`` writes it.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.frameworks.table import PAGE, Shown, kept, replaced, table

FOLDER = Path(__file__).parent
collect_ignore_glob = [] if find_spec("lightning") else ["test_*.py"]  # other environments; a file by name is collected


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", action="store_true", help="write the table of docs/frameworks.md")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.frameworks)


class Results:
    """Collects which marked tests passed, in the process that xdist's workers report to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.shown: Shown = {}
        self.failed = False

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == "shows":
                framework, capability = value
                passed = self.shown.setdefault(framework, {}).setdefault(capability, True)
                self.shown[framework][capability] = passed and report.passed

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        text = PAGE.read_text()
        others = kept(text, self._config.args)
        if others is None or self._config.option.keyword or self.failed or not self.shown:
            return
        made = replaced(text, table(others | self.shown))
        if self._config.getoption("--write-table"):
            PAGE.write_text(made)
        elif made != text:
            print("\ndocs/frameworks.md: the table is not what the tests show; run them again with --write-table")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(config))


@pytest.fixture(autouse=True)
def _shown(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    for mark in request.node.iter_markers("shows"):
        framework, capability = mark.args
        record_property("shows", (framework, capability))
