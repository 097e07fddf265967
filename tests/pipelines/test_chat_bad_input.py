"""Bad input of chat sources: each is a reason that is counted, or one sentence that says what to do."""

import json
from pathlib import Path

import pytest

from penstock.config import ConfigError
from penstock.feed.feed import Feed
from penstock.manifest.errors import ManifestError
from penstock.readers.records.reader import RecordManifest
from penstock.text.formats.registry import register
from tests.pipelines.chat_sources import KINDS, open_chat, records

ROWS = records(30)
LINES = KINDS["rows.jsonl"](ROWS)
UNPACKED = "can't be unpacked: Truncated compressed stream"
TRUNCATED = {
    "rows.jsonl": "1 × not JSON",
    "rows.json": "1 × not JSON",
    "lines.json": "1 × not JSON",
    "rows.csv": "1 × a quote that is not closed",
    "rows.tsv": "1 × a quote that is not closed",
    "rows.jsonl.gz": UNPACKED,
    "rows.json.zst": UNPACKED,
    "rows.csv.gz": UNPACKED,
    "rows.parquet": "it is truncated, or no Parquet file",
    "rows.arrow": "is no Arrow file, or a damaged one",
    "stream.arrow": "a record batch is truncated",
    "rows.tar": "is cut short",
}


def opened(folder: Path, name: str, data: bytes, dtype: str = "conversation") -> Feed:
    """A shuffled run over one file: its index is complete."""
    (folder / name).write_bytes(data)
    return open_chat(folder, {"name": "mine", "dtype": dtype, "path": str(folder / name)}, shuffle=True)


def complaint(folder: Path, name: str, data: bytes) -> str:
    """What is wrong with a file: an error of one line, or what is left out, as the log has it."""
    try:
        feed = opened(folder, name, data)
    except ManifestError as error:
        assert len(str(error).splitlines()) == 1
        assert str(error).startswith("source 'mine': ")
        return str(error)
    return reasons(feed)


def reasons(feed: Feed) -> str:
    manifest = feed.catalog.parts[0].manifest
    assert isinstance(manifest, RecordManifest)
    return ", ".join(f"{count} × {reason}" for reason, count in sorted(manifest._index.reasons.items()))


@pytest.mark.parametrize("name", KINDS)
def test_a_truncated_file_has_a_reason_or_an_error(name: str, tmp_path: Path) -> None:
    data = KINDS[name](ROWS)
    cut = len(data) * 2 // 3
    if name.endswith(("csv", "tsv")):  # in a field with quotes
        cut = data.index(b"and na", cut)
    assert TRUNCATED[name] in complaint(tmp_path, name, data[:cut])


@pytest.mark.parametrize("name", KINDS)
def test_an_empty_file_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    assert name in complaint(tmp_path, name, b"")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bom.jsonl", b"\xef\xbb\xbf" + LINES),
        ("bom.json", b"\xef\xbb\xbf" + KINDS["rows.json"](ROWS)),
        ("bom.csv", b"\xef\xbb\xbf" + KINDS["rows.csv"](ROWS)),
        ("crlf.jsonl", LINES.replace(b"\n", b"\r\n")),
        ("blank.jsonl", LINES.replace(b"\n", b"\n\n \n")),
        ("unended.jsonl", LINES.rstrip()),
    ],
)
def test_marks_and_line_ends_of_other_systems_change_nothing(name: str, data: bytes, tmp_path: Path) -> None:
    feed = opened(tmp_path, name, data)
    assert len(feed.catalog.parts[0].manifest) == 30
    assert reasons(feed) == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nope", "1 × not JSON"),
        (b"[1, 2]", "1 × not a JSON object"),
        (b'{"prompt": "\xff", "completion": "x"}', "1 × not UTF-8"),
        (b'{"prompt": "\\ud800", "completion": "x"}', "1 × not valid Unicode"),
        (b'{"something": "else"}', "1 × no conversation in the columns something"),
        (b'{"prompt": "q", "completion": "' + b"x" * 100_000_000 + b'"}', "1 × longer than 64 MiB"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_record_that_cannot_be_used_is_left_out_with_its_reason(line: bytes, reason: str, tmp_path: Path) -> None:
    feed = opened(tmp_path, "rows.jsonl", LINES + line + b"\n" + LINES)
    assert len(feed.catalog.parts[0].manifest) == 60
    assert reasons(feed) == reason


def test_a_source_without_a_record_that_can_be_used_is_an_error_with_the_reasons(tmp_path: Path) -> None:
    with pytest.raises(
        ManifestError, match=r"source 'mine': none of its 6 records can be used: 5 × no .*, 1 × not JSON"
    ):
        opened(tmp_path, "rows.jsonl", b'{"a": 1}\n' * 5 + b"nope")


def test_one_json_object_over_several_lines_is_named_as_that(tmp_path: Path) -> None:
    data = json.dumps({"data": ROWS}, indent=1).encode()
    assert "is one JSON object over several lines" in complaint(tmp_path, "rows.json", data)


def test_columns_may_change_between_files(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(KINDS["rows.parquet"](ROWS))
    renamed = [{"instruction": row["prompt"], "output": row["completion"], "extra": "1"} for row in ROWS]
    (tmp_path / "b.parquet").write_bytes(KINDS["rows.parquet"](renamed))
    (tmp_path / "c.csv").write_bytes(KINDS["rows.csv"]([{"input": "", **row} for row in renamed]))
    (tmp_path / "d.jsonl").write_bytes(LINES + b'{"else": 1}\n')
    feed = open_chat(tmp_path, tmp_path / "*.*", shuffle=True)
    assert len(feed.catalog.parts[0].manifest) == 120
    assert reasons(feed) == "1 × no conversation in the columns else"


@register("raises on 7")
def raising(record: dict[str, str], tokens: dict[str, str]) -> dict[str, str]:
    if "7" in record["prompt"]:
        raise KeyError("no such key")
    return {"text": record["prompt"]}


def test_what_a_formatter_raises_is_a_reason(tmp_path: Path) -> None:
    feed = opened(tmp_path, "rows.jsonl", LINES, dtype="raises on 7")
    assert reasons(feed) == "3 × the format raised KeyError 'no such key'"


def test_a_closure_works_as_a_format_without_workers(tmp_path: Path) -> None:
    prefix = "Say: "
    register("closure")(lambda record, tokens: {"text": prefix + record["prompt"]})
    feed = opened(tmp_path, "rows.jsonl", LINES, dtype="closure")
    assert all(text.startswith("Say: What is") for text in feed.batch(0)["text"])


def test_what_is_left_out_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path, "rows.jsonl", LINES + b"nope")
    open_chat(tmp_path, tmp_path / "rows.jsonl", shuffle=True)  # finds the index that was made
    [line] = [each.getMessage() for each in caplog.records if each.name == "penstock.index"]
    assert line == "source 'mine': 1 of 31 records are left out: 1 × not JSON"


def test_records_that_the_config_holds_out_are_no_reason_for_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rows.jsonl").write_bytes(LINES)
    feed = open_chat(tmp_path, tmp_path / "rows.jsonl", shuffle=True, chat={"holdout": 0.3})
    assert "held out" in reasons(feed)
    assert not caplog.records
    (tmp_path / "rows.jsonl").write_bytes(LINES + b"x\n")
    open_chat(tmp_path, tmp_path / "rows.jsonl", shuffle=True, chat={"holdout": 0.3})
    assert [record.getMessage() for record in caplog.records] == [
        "source 'rows.jsonl': 1 of 31 records are left out: 1 × not JSON"
    ]


def test_a_source_of_which_nothing_is_held_out_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(KINDS["rows.jsonl"](ROWS[:2]))
    with pytest.raises(ManifestError, match="2 × not held out; remove the source from this run"):
        open_chat(tmp_path, tmp_path / "rows.jsonl", shuffle=True, chat={"holdout": 1e-6, "only_holdout": True})


def test_a_cache_folder_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(LINES)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match=r"file/deep.* can't be made: Not a directory; .*`cache:"):
        open_chat(tmp_path, tmp_path / "rows.jsonl", shuffle=True, cache={"dir": tmp_path / "file/deep", "size": "1GB"})


def test_a_path_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no such file or folder$"):
        open_chat(tmp_path, tmp_path / "no" / "rows.jsonl")
    with pytest.raises(ConfigError, match=r"there is no such file or folder$"):
        open_chat(tmp_path, tmp_path / "nothing")
    with pytest.raises(ConfigError, match="a dataset on the hub has a name of two parts"):
        open_chat(tmp_path, "a/b/c")
