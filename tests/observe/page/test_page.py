"""The page of a step: everything that was in the batch, text that is shown and never run, and what was left out."""

import io
import json
import re
import wave
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import numpy as np
import pytest
import yaml
from PIL import Image

import penstock
from penstock.observe.page import page as pages
from penstock.observe.page.writing import page_path
from tests.cli.commands import complaint, config_of, run
from tests.observe.page.pages import Page, content
from tests.observe.page.runs import HOSTILE, HOSTILE_NAME, RATE, write_config
from tests.recipes.chat_runs import TOKENIZER


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_config(tmp_path_factory.mktemp("mixed"), ["raw", "speech", "chat", "robot"], global_batch_size=32)


def page_of(config: Path, *options: object, step: int = 3) -> Page:
    path = config.parent / "page.html"
    path.unlink(missing_ok=True)
    result = run("replay", config, "--steps", f"{step}:{step + 1}", "--html", path, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{path}\n"
    return Page(path)


def test_samples_of_several_recipes_are_shown_in_the_order_of_their_slots(mixed: Path) -> None:
    page = page_of(mixed)
    feed = penstock.open(mixed, rank=0, world=1)
    batch = feed.batch(3)
    ids = {}
    for own in feed.by_recipe(batch).values():
        ids |= dict(zip(own["slots"].tolist(), own["ids"], strict=True))
    assert page.texts("a", "slot") == [str(slot) for slot in range(32)]
    names = [text for text in page.texts("bdi") if text in ids.values()]
    assert [name for name in names if name] and set(names) == set(ids.values())
    assert [each["id"] for each in page.all("article")] == [f"rank-0-slot-{slot}" for slot in range(32)]


def test_text_from_data_is_shown_and_there_is_nothing_to_run(mixed: Path) -> None:
    page = page_of(mixed)
    assert not page.all("script") and "<script" not in page.source.lower()
    assert not [key for _, attributes, _ in page.elements for key in attributes if key.startswith("on")]
    links = [
        each[key] for tag in ("img", "audio", "a") for each in page.all(tag) for key in ("src", "href") if key in each
    ]
    assert links and all(link.startswith(("data:image/", "data:audio/", "#", "page")) for link in links)
    shown = "".join("".join(texts) for _, _, texts in page.elements)
    assert shown.count(HOSTILE) >= 3 and HOSTILE_NAME in shown  # values, tasks and texts; a name
    [policy] = [each["content"] for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "script" not in policy
    assert "unsafe" not in policy


def test_sounds_are_what_was_fed_with_their_waveform_and_spectrogram(mixed: Path) -> None:
    page = page_of(mixed)
    batch = penstock.open(mixed, rank=0, world=1).batch(3)["speech"]
    heard = [content(each["src"]) for each in page.all("audio")]
    assert len(heard) == len(batch["ids"]) > 0
    for data, fed, length in zip(heard, batch["wav"].numpy(), batch["length"].tolist(), strict=True):
        with wave.open(io.BytesIO(data)) as sound:
            assert (sound.getframerate(), sound.getnframes()) == (RATE, length)
            frames = np.frombuffer(sound.readframes(length), "<i2") / 32_768
        assert np.abs(frames - fed[:length]).max() <= 0.5 / 32_768
    mels = [Image.open(io.BytesIO(content(each["src"]))) for each in page.all("img", "mel")]
    assert len(mels) == len(heard) == len(page.all("path", "wave"))
    assert {mel.format for mel in mels} == {"PNG"} and all(mel.convert("L").getextrema()[1] > 100 for mel in mels)


def test_pictures_are_small_and_none_is_larger_than_320_pixels(mixed: Path) -> None:
    page = page_of(mixed)
    pictures = [Image.open(io.BytesIO(content(each["src"]))) for each in page.all("img") if each.get("class") != "mel"]
    sizes = {picture.size for picture in pictures}
    assert (320, 200) in sizes, "a stored picture of 640 × 400"
    assert (80, 80) in sizes, "a picture of chat data"
    assert (64, 64) in sizes, "a frame of a camera"


def test_the_trained_part_of_a_text_is_marked_and_every_token_has_its_label(tmp_path: Path) -> None:
    config = write_config(tmp_path, ["chat"])
    page = page_of(config)
    batch = penstock.open(config, rank=0, world=1).batch(3)
    own = batch["attention_mask"].numpy() > 0
    trained = [
        TOKENIZER.decode(ids[labels != -100]) for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)
    ]
    assert "".join(page.texts("b")) == "".join(trained)
    tokens = [each for tag, each, _ in page.elements if tag in ("b", "i")]
    ids = [number for each in tokens for number in re.findall(r"\d+", str(each["title"]).partition(", label")[0])]
    assert ids == [
        str(number) for row, real in zip(batch["input_ids"].numpy(), own, strict=True) for number in row[real]
    ]
    assert {str(each["title"]).partition(", label ")[2] for each in page.all("i")} == {"none"}
    for each in page.all("b"):
        token, _, label = str(each["title"]).removeprefix("token ").partition(", label ")
        assert token == label
    assert "हिन्दी" in "".join(page.texts("i")), "tokens that share a character are one piece"


def test_a_pack_says_where_each_of_its_samples_begins(tmp_path: Path) -> None:
    config = write_config(tmp_path, ["chat"], chat={"pack": True, "max_length": 1024})
    page = page_of(config)
    batch = penstock.open(config, rank=0, world=1).batch(3)
    members = [name for own in batch["ids"] for name in own]
    bad = [each.id for each in batch["bad"]]
    assert len(members) > len(batch["ids"])
    shown = [text for text in page.texts("bdi") if text.isdecimal()]
    assert shown == [name for name in members if name not in bad]
    _, columns = np.nonzero(np.diff(batch["sequence_ids"].numpy(), axis=1, prepend=0) > 0)
    said = [
        int(found[1].replace(",", ""))
        for text in page.texts("h4")
        if (found := re.search(r"from token ([\d,]+)", text))
    ]
    assert said == columns.tolist()
    assert len(page.all("rect")) == len(columns)


def test_the_media_of_a_pack_stand_with_their_samples(tmp_path: Path) -> None:
    config = write_config(tmp_path, ["chat"], chat={"pack": True, "max_length": 1024})
    page = page_of(config)
    members: list[list[bytes]] = []
    for tag, attributes, _ in page.elements:
        if tag == "div" and "member" in (attributes.get("class") or "").split():
            members.append([])
        elif tag == "img":
            members[-1].append(content(attributes["src"] or ""))
    batch = penstock.open(config, rank=0, world=1).batch(3)
    assert len(members) == len(batch["text"]) == len(batch["images"])
    for text, [picture] in zip(batch["text"], members, strict=True):
        [number] = re.findall(r"What is (\d+)", text)
        with Image.open(io.BytesIO(picture)) as shown:  # written by write_chat
            assert abs(shown.convert("RGB").getpixel((40, 40))[0] - 9 * int(number)) <= 2  # type: ignore[index,operator]


@pytest.mark.parametrize("options", [{"padding": "none"}, {"pack": True, "flat": True}], ids=str)
def test_rows_without_padding_are_shown_sample_by_sample(tmp_path: Path, options: dict[str, Any]) -> None:
    config = write_config(tmp_path, ["chat"], chat={"max_length": 1024, **options})
    page = page_of(config)
    batch = penstock.open(config, rank=0, world=1).batch(3)
    trained = batch["labels"][batch["labels"] != -100]
    assert "".join(page.texts("b")) == TOKENIZER.decode(trained)
    starts = [
        int(found[1].replace(",", "")) for text in page.texts("h4") if (found := re.search(r"token ([\d,]+)", text))
    ]
    if "flat" in options:
        length = batch["input_ids"].numel() // len(batch["ids"])
        real = [start for start in batch["cu_seqlens"].tolist()[:-1] if batch["sequence_ids"].ravel()[start]]
        assert starts == [start % length for start in real]


def test_windows_are_curves_with_their_padding_marked_and_cameras_are_strips(tmp_path: Path) -> None:
    config = write_config(tmp_path, ["robot"], global_batch_size=48)
    page = page_of(config)
    batch = penstock.open(config, rank=0, world=1).batch(3)
    assert batch["action_is_pad"].any() and batch["top_is_pad"].any()
    assert len(page.all("rect", "pad")) == int(batch["action_is_pad"].sum())
    assert len(page.all("figure", "pad")) == int(batch["top_is_pad"].sum())
    assert len(page.all("figure")) == 48 * 2
    assert len(page.all("g", "curve")) == 48 * 3
    assert page.texts("dd").count(batch["task"][0]) >= 1 and HOSTILE in batch["task"][0]


def test_a_page_has_the_other_uses_of_every_item_and_links_to_other_pages(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    path = tmp_path / "pages" / "step.html"
    result = run("replay", config, "--steps", "7:10", "--world", "2", "--html", path)
    assert result.stdout.split() == [str(tmp_path / "pages" / f"step-{step}.html") for step in (7, 8, 9)]
    feed = penstock.open(config, rank=0, world=2)
    for step, near in ((7, {"8"}), (8, {"7", "9"}), (9, {"8"})):
        page = Page(tmp_path / "pages" / f"step-{step}.html")
        assert {each["href"] for each in page.all("a") if "rel" in each} == {f"step-{other}.html" for other in near}
        assert page.texts("h2") == ["Rank 0", "Rank 1"]
        lines = [line for rank in range(2) for line in feed.lines(step, rank, 2)]
        nearby = [
            [use for _, use in feed.where(f"{line.group}:{line.item}", range(max(0, line.epoch - 2), line.epoch + 3))]
            for line in lines
        ]
        titles = [each["title"] for each in page.all("li")]
        assert titles == [f"epoch {use.epoch}, rank {use.rank}, slot {use.slot}" for uses in nearby for use in uses]
        linked = {each["href"] for each in page.all("a") if "#" in each["href"] and each["href"][0] != "#"}
        others = [
            use
            for line, uses in zip(lines, nearby, strict=True)
            for use in uses
            if use.step in range(7, 10) and (use.step, use.rank, use.slot) != (line.step, line.rank, line.slot)
        ]
        assert linked == {f"step-{use.step}.html#rank-{use.rank}-slot-{use.slot}" for use in others} and others


def test_bad_samples_are_told_with_the_reason_and_the_ledger_says_what_was_bad_in_the_run(tmp_path: Path) -> None:
    config = write_config(tmp_path, ["speech"], global_batch_size=12, usage={"log": str(tmp_path / "log"), "every": 1})
    with penstock.open(config, rank=0, world=1).loader() as loader:
        batches = [next(loader) for _ in range(3)]
    bad = batches[2]["bad"]
    assert bad
    page = page_of(config, "--ledger", tmp_path / "log", step=2)
    notes = page.texts("p", "bad")
    assert len(notes) == len(bad) and all("was bad: " in note and "next sample" in note for note in notes)
    assert [text for text in page.texts("p") if text.startswith("In the ledger: rank 0 on ")]
    assert len([text for text in page.texts("li", "here") if text == "here as a substitute"]) == len(bad)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    lines[2]["bad"] = [*lines[2]["bad"][1:], {**lines[2]["bad"][0], "row": 0, "id": "clip-0-0", "reason": "odd"}]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    notes = page_of(config, "--ledger", tmp_path / "log", step=2).texts("p", "bad")
    assert "In the run, clips-0.tar:clip-0-0 was bad here: odd" in notes
    assert [note for note in notes if note.endswith(" was not bad here")]
    late = page_of(config, "--ledger", tmp_path / "log", step=9)
    assert "The ledger does not have this step of rank 0." in late.texts("p")
    page_of(config, step=2)
    said = complaint(
        run("replay", config, "--steps", 2, "--world", 2, "--ledger", tmp_path / "log", "--html", tmp_path / "a.html")
    )
    assert said == "the ledger has step 2 of 1 ranks: add --world 1" and not (tmp_path / "a.html").exists()


def test_reported_losses_are_shown_with_their_samples(tmp_path: Path) -> None:
    for name, recipe, options in (("a", "speech", {}), ("b", "chat", {"chat": {"pack": True, "max_length": 1024}})):
        log = tmp_path / name / "log"
        config = write_config(tmp_path / name, [recipe], usage={"log": str(log), "every": 2}, **options)
        feed = penstock.open(config, rank=0, world=1)
        reported: dict[int, list[float]] = {}
        with feed.loader() as loader:
            for step in range(6):
                batch = next(loader)
                count = len(batch["text"]) if recipe == "chat" else len(batch["ids"])
                reported[step] = [step + number / 16 for number in range(count)]
                feed.report(step, np.array(reported[step], np.float32))
            loader.state_dict()
        feed.close()
        shown = page_of(config, "--ledger", log, step=4).texts("span", "loss")
        assert shown == [f"loss {loss:.4g}" for loss in reported[4]]
        assert not page_of(config, step=4).texts("span", "loss")


def test_what_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write_config(tmp_path, ["speech"], global_batch_size=80)
    page = page_of(config, "--world", 2)
    assert len(page.all("article")) == 64
    assert page.texts("p", "left")[0] == "Left out: 64 of 80 samples are shown."
    assert page_of(config, "--world", 2, "--rank", 1).texts("p", "left") == ["Left out: only rank 1 of 2 is shown."]
    monkeypatch.setattr(pages, "PAGE_BYTES", 500_000)
    page = page_of(config, "--world", 2)
    assert len(page.source.encode()) < 500_000 and len(page.all("audio")) < 64
    assert page.texts("p", "left").count("left out: the page is full") == 64 - len(page.all("audio"))
    assert any(re.fullmatch(r"sound: the first 0\.\d s of \d\.\d s", text) for text in page.texts("p", "left"))


def test_samples_are_counted_beside_packs(tmp_path: Path) -> None:
    config = write_config(tmp_path, ["raw", "chat"], global_batch_size=80, chat={"pack": True, "max_length": 1024})
    page = page_of(config)
    packs = [int(text.split()[2]) for text in page.texts("bdi") if text.startswith("Pack of ")]
    assert 0 < len(packs) < 64
    counts = f"{sum(packs)} samples in {len(packs)} packs, and {64 - len(packs)} unpacked samples"
    assert page.texts("p", "facts")[0].startswith(f"{counts} · ")
    assert page.texts("p", "left")[0].startswith("Left out: 64 of 80 packs and samples are shown")


def test_records_without_extras_are_described(tmp_path: Path, mixed: Path) -> None:
    page = page_of(mixed)
    values = dict(zip(page.texts("dt"), page.texts("dd"), strict=True))
    assert values["first bytes"] == "00 ff" and values["speaker"] == HOSTILE


def test_the_page_of_a_single_step_links_to_those_before_and_after(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    pages = tmp_path / "pages"
    links: dict[str, set[str]] = {}
    for step in (0, 5):
        result = run("replay", config, "--steps", step, "--html", pages / "page.html")
        names = [Path(each).name for each in result.stdout.split()]
        links = {name: {a["href"] for a in Page(pages / name).all("a") if "rel" in a} for name in names}
        assert names == ["page.html", *(["page-4.html"] if step else []), f"page-{step + 1}.html"]
    assert links == {
        "page.html": {"page-4.html", "page-6.html"},
        "page-4.html": {"page.html"},
        "page-6.html": {"page.html"},
    }


def test_links_lead_to_pages_whose_names_have_characters_of_urls(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    path = tmp_path / "pages" / "a:#1?%20<b>.html"
    assert run("replay", config, "--steps", "7:9", "--html", path).exit_code == 0
    for step, other in ((7, 8), (8, 7)):
        [link] = [each["href"] for each in Page(page_path(path, step)).all("a") if "rel" in each]
        assert urljoin("file:///pages/", link) == f"file:///pages/{link}"  # relative, without query and fragment
        assert unquote(link) == page_path(path, other).name


def test_a_finite_run_has_no_page_after_its_last_step(tmp_path: Path) -> None:
    config = config_of(tmp_path, passes=1)
    *_, last = penstock.open(config, rank=0, world=1).steps()
    result = run("replay", config, "--steps", last, "--html", tmp_path / "page.html")
    assert [Path(each).name for each in result.stdout.split()] == ["page.html", f"page-{last - 1}.html"]


def test_only_pages_are_replaced_and_something_must_be_asked_for(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    path = tmp_path / "page.html"
    path.write_text("mine")
    said = complaint(run("replay", config, "--steps", 3, "--html", path))
    assert said == f"{path} exists and is not a page of penstock replay: choose another name"
    assert path.read_text() == "mine"
    path.unlink()
    for step in (3, 4):
        assert run("replay", config, "--steps", step, "--html", path).exit_code == 0
        assert Page(path).texts("h1") == [f"Step {step}"]
    said = complaint(run("replay", config, "--steps", 3, "--html", tmp_path / "pages"))
    assert said == f"--html {tmp_path / 'pages'}: name a file that ends in .html, such as page.html"
    assert complaint(run("replay", config, "--steps", 3)).startswith("nothing to write: add -o FOLDER")
    said = complaint(run("replay", config, "--steps", 3, "-o", tmp_path / "out", "--ledger", path))
    assert said == "--ledger is shown on pages only: add --html FILE"


def test_a_page_is_opened_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    config = config_of(tmp_path)
    result = run("replay", config, "--steps", "3:5", "--open")
    first, second = result.stdout.split()
    assert opened == [Path(first).as_uri()] and Path(second).exists()


def test_a_ledger_of_another_run_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 1})
    with penstock.open(config, rank=0, world=1).loader() as loader:
        next(loader)
    options: dict[str, Any] = {**yaml.safe_load(config.read_text()), "seed": 99}
    config.write_text(yaml.safe_dump(options))
    log = tmp_path / "usage.jsonl"
    said = complaint(run("replay", config, "--steps", 0, "--ledger", log, "--html", tmp_path / "page.html"))
    assert said == f"{log}: written by another run (seed, data, mixture or exclude differ from the config)"
    assert not (tmp_path / "page.html").exists()
