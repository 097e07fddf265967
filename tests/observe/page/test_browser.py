"""Pages in a real browser: sounds play, pictures load, filters and links work, and nothing is run or requested."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.media.audio.wav import wav_bytes
from penstock.observe.page.page import PAGE_BYTES, PageOptions, make_page
from tests.browsing import Visit, chromium, visit
from tests.cli.commands import run
from tests.observe.page.runs import HOSTILE, HOSTILE_NAME, write_config
from tests.readers.tar.archives import write_tar

pytestmark = pytest.mark.see


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``all-3.html`` to ``all-6.html``, pages of all recipes, and ``packs-3.html``."""
    folder = tmp_path_factory.mktemp("pages")
    recipes = ["raw", "speech", "chat", "robot"]
    config = write_config(folder / "run", recipes, global_batch_size=32)
    assert run("replay", config, "--steps", "3:7", "--html", folder / "all.html").exit_code == 0
    config = write_config(folder / "packed", ["chat"], chat={"pack": True, "max_length": 1024})
    assert run("replay", config, "--steps", "3", "--html", folder / "packs.html").exit_code == 0
    return folder


def check_quiet(visited: Visit) -> None:
    """Nothing was requested but files and data, nothing of the page was blocked, and nothing of the data was run."""
    assert visited.requests and all(re.match("(file|data):", url) for url in visited.requests)
    assert visited.messages == []
    assert visited.page.title().startswith("Step ")
    assert visited.run("document.scripts.length") == 0


@pytest.mark.parametrize("name", ["all-3", "packs"])
def test_text_of_data_is_shown_and_never_run(browser: Any, pages: Path, name: str) -> None:
    visited = visit(browser, pages / f"{name}.html")
    visited.page.wait_for_timeout(300)
    check_quiet(visited)
    shown = visited.run("document.body.textContent")
    assert HOSTILE in shown
    if name == "all-3":
        assert HOSTILE_NAME in shown and shown.count(HOSTILE) > 10 and "more<script>" in shown


def test_every_sound_plays(browser: Any, pages: Path) -> None:
    visited = visit(browser, pages / "all-3.html")
    script = """async sound => {
        await sound.play()
        for (let tries = 0; tries < 200 && !sound.currentTime; tries++) await new Promise(done => setTimeout(done, 10))
        sound.pause()
        return [sound.duration, sound.currentTime]
    }"""
    sounds = visited.page.query_selector_all("audio")
    assert sounds
    for sound in sounds:
        duration, reached = sound.evaluate(script)
        assert 0 < reached <= duration and 0.4 < duration <= 1.0
    check_quiet(visited)


def test_every_picture_loads_and_none_is_larger_than_320_pixels(browser: Any, pages: Path) -> None:
    visited = visit(browser, pages / "all-3.html")
    sizes = visited.run("[...document.images].map(image => [image.complete, image.naturalWidth, image.naturalHeight])")
    assert len(sizes) > 20 and all(complete and 0 < max(size) <= 320 for complete, *size in sizes)
    drawn = visited.run("[...document.querySelectorAll('svg')].map(svg => svg.getBoundingClientRect().height)")
    assert drawn and min(drawn) > 10


def test_a_source_is_chosen_by_its_button(browser: Any, pages: Path) -> None:
    visited = visit(browser, pages / "all-3.html")
    cards = "[...document.querySelectorAll('.card')].filter(card => getComputedStyle(card).display != 'none')"
    everything = visited.run(f"{cards}.length")
    buttons = visited.page.query_selector_all("label")
    counts = [int(button.query_selector("small").text_content()) for button in buttons]
    assert counts[0] == everything == sum(counts[1:]) == 32 and len(buttons) > 6
    for button, count in zip(buttons, counts, strict=True):
        button.click()
        name = button.query_selector("bdi").text_content()
        shown = visited.run(f"{cards}.map(card => card.querySelector('header p bdi').textContent)")
        assert len(shown) == count and (name == "All" or set(shown) == {name})
    check_quiet(visited)


def test_links_lead_to_other_steps_and_to_other_uses_of_an_item(browser: Any, pages: Path) -> None:
    visited = visit(browser, pages / "all-3.html")
    page = visited.page
    page.click("text=4 →")
    assert page.title().startswith("Step 4 of ") and page.url.endswith("/all-4.html")
    page.click("text=← 3")
    assert page.title().startswith("Step 3 of ")
    link = page.query_selector(".uses a:not([href^=all-3])")
    item = link.evaluate("link => link.closest('.card').querySelector('h3').textContent")
    href = link.get_attribute("href")
    link.click()
    page.wait_for_url(f"**/{href}")
    assert re.fullmatch(r"all-[456]\.html#rank-0-slot-\d+", href)
    assert item in visited.run("document.querySelector(':target').textContent")
    check_quiet(visited)


def test_a_token_tells_its_label_and_the_trained_part_looks_different(browser: Any, pages: Path) -> None:
    visited = visit(browser, pages / "packs.html")
    colours = visited.run(
        "['.tokens b', '.tokens i'].map(tag => getComputedStyle(document.querySelector(tag)).backgroundColor)"
    )
    assert colours[0] != colours[1]
    assert re.fullmatch(r"token \d+, label \d+", visited.run("document.querySelector('.tokens b').title"))
    assert re.fullmatch(r"token \d+, label none", visited.run("document.querySelector('.tokens i').title"))


def test_pages_are_light_or_dark_as_the_system_is_and_fit_a_narrow_window(browser: Any, pages: Path) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    found = {
        scheme: visit(browser, pages / "all-3.html", color_scheme=scheme).run(colour) for scheme in ("light", "dark")
    }
    assert found["light"] != found["dark"]
    for name in ("all-3", "packs"):
        narrow = visit(browser, pages / f"{name}.html", viewport={"width": 380, "height": 800})
        assert narrow.run("document.documentElement.scrollWidth") <= 380


def test_a_page_of_64_crops_of_six_seconds_fits_into_20_megabytes(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    clips = [wav_bytes(noise.normal(0, 0.1, 7 * 16_000).astype(np.float32), 16_000) for _ in range(16)]
    write_tar(tmp_path / "a.tar", [(f"clip-{number}.wav", clip) for number, clip in enumerate(clips)])
    (tmp_path / "train.tsv").write_text("".join(f"a.tar\tclip-{number}\tenglish\t7.0\n" for number in range(16)))
    own = {
        "filelist": tmp_path / "train.tsv",
        "store": str(tmp_path),
        "cache": {"dir": tmp_path / "cache", "size": "1GB"},
    }
    feed = penstock.open(
        {"recipe": "speech", "global_batch_size": 64, "speech": {"crop": "6s"}, **own}, rank=0, world=1
    )
    page = make_page(feed, 1, PageOptions("run", [0], 1, {}))
    assert page.count("<audio") == 64 and "left out" not in page.lower()
    assert 16_000_000 < len(page.encode()) <= PAGE_BYTES
