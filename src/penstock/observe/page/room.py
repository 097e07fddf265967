"""The room on a page: draws panels as long as it lasts."""

from penstock.observe.page.drawn import draw, left_out
from penstock.observe.page.markup import Markup
from penstock.recipes.panels import Panel


class PageRoom:
    """Counts the bytes of a page.

    Args:
        size: Bytes that the page may have.
        sound_bytes: Maximum size of an embedded sound.

    Attributes:
        dropped: Number of panels and members that did not fit.
    """

    def __init__(self, size: int, sound_bytes: int) -> None:
        self._left = size
        self._sound_bytes = sound_bytes
        self.dropped = 0

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def spend(self, markup: Markup) -> Markup:
        """Count a part that is always shown."""
        self._left -= len(markup.encode())
        return markup

    def draw(self, panel: Panel) -> Markup:
        """Return a panel as HTML, or a note if it does not fit."""
        drawn = Markup() if self.is_full else draw(panel, self._sound_bytes)
        if self.is_full or len(drawn.encode()) > self._left:
            return self.left_out("left out: the page is full")
        return self.spend(drawn)

    def left_out(self, what: str, count: int = 1) -> Markup:
        """Return a note on what does not fit."""
        self.dropped += count
        return left_out(what)
