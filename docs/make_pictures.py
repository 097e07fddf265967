"""Makes the pictures of README and docs: pages of the demos in Chromium, and the plan of a mixture and a window as SVG.

Run it by ``make pictures``. It needs Debian's package chromium. Figures of speed in the report are of this machine; all
else is the same every time.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from window_picture import draw_window

import penstock
from penstock.observe.summary.charts import COLOURS

IMAGES = Path(__file__).parent / "images"
DEMOS = Path("demo-data")
MAX_BYTES = 300_000
REPORT_STEPS = 600
PLAN_SAMPLES = 214
PLAN = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1080 460" font-family="system-ui, sans-serif" font-size="12">
<title>The plan of a mixture of twelve languages</title>
<style>{style}</style>
<rect width="1080" height="460" rx="12" class="card"/>
{content}
</svg>
"""
PLAN_STYLE = (
    ".card{fill:#fbfaf8} text{fill:#6b6f78} .title{fill:#1d1f24;font-size:14px;font-weight:600} "
    ".right{text-anchor:end} .band{fill:#0b6e63;opacity:.1} "
    ".off{fill:none;stroke-opacity:.8;stroke-width:1.1;stroke-linejoin:round} "
    "@media(prefers-color-scheme:dark){svg{filter:invert(1) hue-rotate(180deg)} .card{fill:#e9ebea}}"
)


def make_demos() -> None:
    """Run the demos that were not run here before."""
    for arguments, made in (("", "demo.yaml"), ("chat", "chat/demo.yaml"), ("robot", "robot/demo.yaml")):
        if not (DEMOS / made).exists():
            penstock_command("demo", *arguments.split())


def penstock_command(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "penstock", *map(str, arguments)], check=True)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


def shoot(browser: Browser, page: Path, name: str, height: int, first: str = "body") -> None:
    """Take pictures of a page, light and dark.

    Args:
        browser: Browser.
        page: Page.
        name: Name of the picture.
        height: Height of the window.
        first: Selector of the element to begin with.
    """
    for scheme, ending in (("light", ""), ("dark", "-dark")):
        options: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": 1200, "height": height}}
        opened = browser.new_context(**options, device_scale_factor=1.5).new_page()
        opened.goto(page.resolve().as_uri())
        opened.wait_for_function("[...document.images].every(image => image.complete)")
        for _ in range(3 if first != "body" else 0):  # cards get their height when they are seen
            opened.eval_on_selector(first, "element => window.scrollBy(0, element.getBoundingClientRect().top - 12)")
            opened.wait_for_timeout(500)
        opened.wait_for_timeout(1_000)  # sounds show their duration
        png = page.with_suffix(".png")
        opened.screenshot(path=png)
        with Image.open(png) as picture:
            picture.convert("RGB").save(IMAGES / f"{name}{ending}.webp", quality=80, method=6)


def write_speech_run() -> Path:
    """Write the run of the speech tutorial."""
    page = (Path(__file__).parent / "start" / "speech.md").read_text()
    run = DEMOS / "speech.yaml"
    run.write_text(
        page.split("```yaml\n")[1].split("```")[0].replace("demo-data/", "").replace("store: demo-data", "store: .")
    )
    return run


def write_report_run() -> Path:
    """Write a run over the twelve languages of the demo: by their hours, and later by the square roots of these."""
    demo = yaml.safe_load((DEMOS / "demo.yaml").read_text())
    weights = demo["mixture"]["weights"]
    flatter = {name: hours**0.5 for name, hours in weights.items()}
    demo |= {
        "recipe": "speech",
        "global_batch_size": 32,
        "mixture": [{"weights": weights}, {"at": 32 * REPORT_STEPS // 2, "weights": flatter}],
        "speech": {"crop": "1s"},
        "usage": {"log": "usage.jsonl", "every": 10},
    }
    run = DEMOS / "report.yaml"
    run.write_text(yaml.safe_dump(demo))
    return run


class Classifier:
    """Tells languages apart: softmax regression on the mean features of a clip."""

    def __init__(self, languages: list[str]) -> None:
        self._languages = languages
        self._weights = np.zeros((161, len(languages)))
        self._gradient = np.zeros_like(self._weights)

    def losses(self, batch: dict[str, Any]) -> Any:
        """Return the loss of each sample, and add its gradient."""
        feats = batch["feats"].numpy()[:, 0].mean(axis=1)
        inputs = np.c_[feats, np.ones(len(feats))]
        target = np.eye(len(self._languages))[[self._languages.index(name) for name in batch["sources"]]]
        scores = inputs @ self._weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        self._gradient += inputs.T @ (odds - target)
        return -np.log((odds * target).sum(axis=1))

    def step(self, samples: int) -> None:
        self._weights -= 0.5 * self._gradient / samples
        self._gradient[:] = 0


def train(run: Path) -> None:
    """Train on two ranks, in one process, with losses in the ledger."""
    (DEMOS / "usage.jsonl").unlink(missing_ok=True)
    feeds = [penstock.open(run, rank=rank, world=2) for rank in range(2)]
    model = Classifier(list(feeds[0].catalog.sources))
    loaders = [feed.loader(threads=1) for feed in feeds]
    for _ in range(REPORT_STEPS):
        for feed, loader in zip(feeds, loaders, strict=True):
            batch = next(loader)
            feed.report(batch["step"], model.losses(batch))
        model.step(32)
    for loader, feed in zip(loaders, feeds, strict=True):
        loader.close()
        feed.close()


def draw_plan(config: Path) -> str:
    """Return the plan of a mixture as SVG: the source of each sample, and how far each is from its quota."""
    feed = penstock.open(config, rank=0, world=1)
    names = feed.catalog.sources
    order = feed.plan.order
    sources = order.look_up(np.arange(PLAN_SAMPLES)).source
    quotas = order.quotas(0, PLAN_SAMPLES)
    assert quotas is not None, "an endless run has quotas"
    weights = quotas / PLAN_SAMPLES
    due = np.arange(1, PLAN_SAMPLES + 1)
    bound = 1 - 1 / (2 * len(names) - 2)
    parts = [
        text(24, 36, "Which source each sample comes from: known before any data is read", "title"),
        text(24, 290, "Samples of each source above or below its quota so far", "title"),
        text(1056, 290, f"never more than {bound:.3f}, as proven", "right"),
        f'<rect x="116" y="{_height(bound)}" width="856" height="{130 * bound:.1f}" class="band"/>',
    ]
    parts += [text(104, _height(level) + 4, f"{level:+d}" if level else "0", "right") for level in (-1, 0, 1)]
    for row, number in enumerate(np.argsort(-weights, kind="stable").tolist()):
        y = 54 + 17 * row
        parts += [text(104, y + 11, names[number], "right"), text(1056, y + 11, f"{weights[number]:.2%}", "right")]
        drawn = np.flatnonzero(sources == number)
        bars = "".join(f"M{116 + 4 * at} {y}v13" for at in drawn.tolist())
        parts.append(f'<path d="{bars}" stroke="{COLOURS[row]}" stroke-width="3"/>')
        off = np.cumsum(sources == number) - due * weights[number]
        line = "L".join(f"{116 + 4 * at} {_height(value)}" for at, value in enumerate(off.tolist()))
        parts.append(f'<path d="M{line}" stroke="{COLOURS[row]}" class="off"/>')
    return PLAN.format(style=PLAN_STYLE, content="\n".join(parts))


def _height(off: float) -> float:
    return round(370 - 65 * off, 1)


def text(x: float, y: float, said: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{said}</text>'


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    make_demos()
    pages = DEMOS / "pages"
    penstock_command("replay", write_speech_run(), "--steps", 3, "--html", pages / "speech.html")
    penstock_command("replay", DEMOS / "chat" / "demo.yaml", "--steps", 3, "--html", pages / "chat.html")
    penstock_command("replay", DEMOS / "robot" / "demo.yaml", "--steps", 15, "--html", pages / "robot.html")
    run = write_report_run()
    train(run)
    penstock_command("report", DEMOS / "usage.jsonl", "--config", run, "-o", pages / "report.html")
    with chromium() as browser:
        shoot(browser, pages / "speech.html", "replay-speech", 820)
        shoot(browser, pages / "chat.html", "replay-chat", 820, first="article:has(img):not(:has(audio))")
        shoot(browser, pages / "robot.html", "replay-robot", 820)
        shoot(browser, pages / "report.html", "report", 1_100)
    (IMAGES / "plan-mixture.svg").write_text(draw_plan(DEMOS / "demo.yaml"))
    (IMAGES / "length-window.svg").write_text(draw_window())
    for path in IMAGES.iterdir():
        assert path.stat().st_size <= MAX_BYTES, path
        sys.stdout.write(f"{path}: {path.stat().st_size / 1e3:.0f} kB\n")


if __name__ == "__main__":
    main()
