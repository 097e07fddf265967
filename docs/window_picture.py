"""The picture of a window of batches by length, as SVG: samples as they are drawn, sorted, and cut into units."""

from itertools import pairwise

import numpy as np

from penstock.observe.summary.charts import COLOURS
from penstock.plan.cutting import DealtWindow, Rule, count_steps, deal, rank
from penstock.plan.draws import Ints, key, words

SAMPLES = 160
SOURCES = 4
RULE = Rule(units=2, budget=400, lanes=1, alone=False, seed=7)  # 40 s, in tenths of a second
BATCH_SIZE = 10  # of the batches that are cut without sorting
PIXELS_PER_TENTH = 1.0
WIDTH = 6  # pixels of a sample
UNIT_WIDTH = 10  # the same in units
LEFT = 24
PICTURE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1080 {height}" font-family="system-ui, sans-serif" font-size="12">
<title>A window of batches by length</title>
<style>{style}</style>
<rect width="1080" height="{height}" rx="12" class="card"/>
{content}
</svg>
"""
STYLE = (
    ".card{fill:#fbfaf8} text{fill:#6b6f78} .title{fill:#1d1f24;font-size:14px;font-weight:600} "
    ".right{text-anchor:end} .middle{text-anchor:middle} .padding{fill:#1d1f24;opacity:.13} "
    ".unit{fill:none;stroke:#1d1f24;stroke-opacity:.45} "
    "@media(prefers-color-scheme:dark){svg{filter:invert(1) hue-rotate(180deg)} .card{fill:#e9ebea}}"
)


def draw_window() -> str:
    """Return the picture."""
    slots = np.arange(SAMPLES)
    lengths = made_lengths(slots)
    sources = (words(key("picture", "sources"), slots) % np.uint64(SOURCES)).astype(np.int64)
    ranked = rank(slots, lengths, RULE)
    dealt = deal(ranked, RULE, count_steps(ranked.longest, RULE), 0)
    canvas = Canvas(lengths, sources)
    drawn = [slots[first : first + BATCH_SIZE] for first in range(0, SAMPLES, BATCH_SIZE)]
    canvas.title(
        36, "1  A window of samples as the mixture draws them; in batches of ten, most of it is padding", drawn
    )
    canvas.row(170, drawn, gap=5)
    canvas.title(216, "2  Sorted by length", [])
    canvas.row(350, [ranked.slots[0]], gap=0, padded=False)
    steps = cut_steps(dealt)
    units = [unit for step in steps for unit in step]
    canvas.title(396, "3  Cut into steps of two units of at most 40 s, padding included; steps shuffled", units)
    for number in range(RULE.units):
        canvas.row(530 + 130 * number, [step[number] for step in steps], gap=15, width=UNIT_WIDTH)
        canvas.text(1056, 525 + 130 * number, f"unit {number}", "right")
    canvas.numbers(680, [step[0] for step in steps], gap=15)
    legend = (
        f"colour: source · height: length, 1 to {lengths.max() / 10:.0f} s · grey: padding · frame: one batch of a rank"
    )
    canvas.text(LEFT, 706, legend, "")
    return PICTURE.format(height=724, style=STYLE, content="\n".join(canvas.parts))


def made_lengths(slots: Ints) -> Ints:
    """Return lengths like those of read speech, without a generator: 1 to 12 s, most of them short."""
    share = words(key("picture", "lengths"), slots) / 2.0**64
    found: Ints = np.round(10 + 110 * share**2.5).astype(np.int64)
    return found


def cut_steps(dealt: DealtWindow) -> list[list[Ints]]:
    """Return the slots of each unit of each step."""
    units = np.split(dealt.slots, dealt.unit_starts[1:-1])
    first = dealt.step_units.tolist()
    return [units[a:b] for a, b in pairwise(first)]


class Canvas:
    """Collects the elements of the picture.

    Args:
        lengths: Length of each sample.
        sources: Source of each sample.
    """

    def __init__(self, lengths: Ints, sources: Ints) -> None:
        self._lengths = lengths
        self._sources = sources
        self.parts: list[str] = []

    def title(self, y: float, said: str, batches: list[Ints]) -> None:
        """Add a title, and the share of data in some padded batches."""
        self.text(LEFT, y, said, "title")
        if batches:
            data = sum(int(self._lengths[each].sum()) for each in batches)
            padded = sum(len(each) * int(self._lengths[each].max()) for each in batches)
            self.text(1056, y, f"{data / padded:.0%} data", "right title")

    def row(self, y: float, batches: list[Ints], gap: float, width: int = WIDTH, padded: bool = True) -> None:
        """Add batches side by side, standing on ``y``: a bar per sample, and what pads it to the longest."""
        x = float(LEFT)
        for batch in batches:
            tall = int(self._lengths[batch].max()) * PIXELS_PER_TENTH
            wide = width * len(batch)
            if padded:
                self._rectangle(x, y - tall, wide, tall, 'class="padding"')
            for place, slot in enumerate(batch.tolist()):
                high = int(self._lengths[slot]) * PIXELS_PER_TENTH
                colour = f'fill="{COLOURS[int(self._sources[slot])]}"'
                self._rectangle(x + width * place + 0.5, y - high, width - 1, high, colour)
            if padded:
                self._rectangle(x, y - tall, wide, tall, 'class="unit"')
            x += wide + gap

    def numbers(self, y: float, batches: list[Ints], gap: float) -> None:
        """Number the batches of a row."""
        x = float(LEFT)
        for number, batch in enumerate(batches):
            wide = UNIT_WIDTH * len(batch)
            self.text(x + wide / 2, y, f"step {number}" if number == 0 else f"{number}", "middle")
            x += wide + gap

    def text(self, x: float, y: float, said: str, kind: str) -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{said}</text>')

    def _rectangle(self, x: float, y: float, width: float, height: float, look: str) -> None:
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {look}/>')
