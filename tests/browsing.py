"""A real browser for tests of pages: Debian's Chromium, driven by Playwright without a download of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Visit:
    """A visited page.

    Attributes:
        page: Playwright's page.
        requests: URLs that the browser requested.
        messages: Messages in its console, such as of content that the policy blocked, and of dialogs.
    """

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def run(self, script: str, *arguments: Any) -> Any:
        """Evaluate JavaScript in the page: from outside of it, so that its policy does not apply."""
        return self.page.evaluate(script, *arguments)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Chromium. Skips the test if it is not installed."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make install")
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


def visit(browser: Any, path: Path, **options: Any) -> Visit:
    """Open a page in a context of its own.

    Args:
        browser: Running browser.
        path: File of the page.
        **options: Options of the context, such as ``color_scheme``.
    """
    visited = Visit(browser.new_context(**options).new_page())
    visited.page.on("request", lambda request: visited.requests.append(request.url))
    visited.page.on("console", lambda message: visited.messages.append(message.text))
    visited.page.on("dialog", lambda dialog: (visited.messages.append(dialog.message), dialog.dismiss()))
    visited.page.goto(path.as_uri())
    return visited
