"""How far an index is: quiet while it is quick, a bar on a terminal, lines in a log, and only once per node."""

import io
import logging
import multiprocessing
from pathlib import Path

import pytest
from rich.console import Console

import penstock
from penstock.readers.records import indexprogress
from penstock.readers.records.indexprogress import IndexProgress
from tests.recipes.chat_runs import run, source, write_records


class Clock:
    """A clock that is set by hand."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def progress(terminal: bool, name: str = "a") -> tuple[IndexProgress, Clock, io.StringIO]:
    clock = Clock()
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    return IndexProgress(name, 4, console=console, clock=clock), clock, out


def advance(shown: IndexProgress, clock: Clock, seconds: list[float], upto: int | None = None) -> None:
    for number, each in enumerate(seconds):
        clock.seconds = 100.0 + each
        shown.update(1_000 * number, 1, lambda: 0.5, upto=upto)


def test_what_takes_less_than_a_second_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    for terminal in (True, False):
        shown, clock, out = progress(terminal)
        advance(shown, clock, [0, 0.5, 0.9])
        shown.end()
        assert out.getvalue() == ""
    assert not caplog.records


def test_on_a_terminal_there_is_a_bar_and_no_line(caplog: pytest.LogCaptureFixture) -> None:
    shown, clock, out = progress(True, "voices [bold]\x1b")
    advance(shown, clock, [0, 2, 30])
    shown.end()
    assert "indexing voices [bold]\\x1b" in out.getvalue()
    assert "2,000 items, file 2 of 4" in out.getvalue()
    assert not caplog.records


def test_elsewhere_there_is_a_line_every_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    shown, clock, out = progress(False)
    advance(shown, clock, [0, 2, 5, 7, 9.9, 10, 60])
    assert out.getvalue() == ""
    assert [record.getMessage().partition("; this")[0] for record in caplog.records] == [
        "source 'a': indexing all of it; at item 2,000, file 2 of 4",
        "source 'a': indexing all of it; at item 5,000, file 2 of 4",
        "source 'a': indexing all of it; at item 6,000, file 2 of 4",
    ]


def test_an_index_that_grows_during_a_run_has_lines_only(caplog: pytest.LogCaptureFixture) -> None:
    shown, clock, out = progress(True)
    advance(shown, clock, [0, 6], upto=5_000)
    assert out.getvalue() == ""
    assert "indexing up to item 5,000" in caplog.text


@pytest.mark.parametrize(("variable", "value"), [("LOCAL_RANK", "1"), ("RANK", "3")])
def test_other_ranks_of_a_node_are_quiet(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    shown, clock, out = progress(True)
    advance(shown, clock, [0, 30])
    assert out.getvalue() == "" and not caplog.records


def _shown_in_worker(results: "multiprocessing.SimpleQueue[str]") -> None:
    shown, clock, out = progress(True)
    advance(shown, clock, [0, 30])
    results.put(out.getvalue())


def test_a_worker_process_is_quiet() -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    worker = context.Process(target=_shown_in_worker, args=(results,))
    worker.start()
    worker.join()
    assert results.get() == ""


def test_opening_a_shuffled_run_shows_how_far_its_index_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexprogress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(indexprogress, "SECONDS_PER_LINE", 0.0)
    caplog.set_level(logging.WARNING, "penstock.index")
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    path = write_records(tmp_path, [{"messages": turns}] * 3_000)
    sources = [source(path, "conversation")]
    run(sources)
    for item in ("0", "1,024", "2,048", "3,000"):  # also within a segment
        assert f"indexing all of it; at item {item}, file 1 of" in caplog.text
    caplog.clear()
    run(sources)  # the index is kept
    assert "indexing" not in caplog.text


def test_docstrings_of_what_opens_a_run_say_that_chat_is_indexed() -> None:
    for opens in (penstock.open, penstock.chat, penstock.Pipeline.open):
        assert "No data has been read" not in (opens.__doc__ or "")
    assert "indexed" in (penstock.open.__doc__ or "") and "indexed" in (penstock.chat.__doc__ or "")
    assert "read all of the data once" in " ".join((penstock.Pipeline.open.__doc__ or "").split())
