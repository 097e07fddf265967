"""Pages as tests see them: parsed as a browser parses them, without running anything."""

import base64
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


class Page(HTMLParser):
    """The elements of a page, in order: tag, attributes and the text directly inside."""

    def __init__(self, source: Path | str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[list[str]] = [[]]
        self.source = source.read_text() if isinstance(source, Path) else source
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in ("meta", "img", "input", "br", "link"):
            self._open.append(self.elements[-1][2])

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].append(data)

    def all(self, tag: str, class_: str | None = None) -> list[dict[str, Any]]:
        """Return the attributes of all elements with a tag, and their text as ``text``."""
        return [
            {**attributes, "text": "".join(texts)}
            for name, attributes, texts in self.elements
            if name == tag and (class_ is None or class_ in (attributes.get("class") or "").split())
        ]

    def texts(self, tag: str, class_: str | None = None) -> list[str]:
        return [each["text"] for each in self.all(tag, class_)]


def content(uri: str) -> bytes:
    """Return the content of a data URI."""
    return base64.b64decode(uri.partition(",")[2])
