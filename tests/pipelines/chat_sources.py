"""The same records in files of every kind, and runs over them."""

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.feed.feed import Feed
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level

TOKENIZER = byte_level(chat_template=CHATML)
Records = list[dict[str, str]]


def records(count: int, word: str = "sunny") -> Records:
    return [
        {"prompt": f"What is {number}?", "completion": f'It is "{word}", {number}\nand naïve.'}
        for number in range(count)
    ]


def _lines(rows: Records) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _csv(rows: Records, delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: Records) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
    return sink.getvalue()


def _arrow(rows: Records, writer: Callable[..., Any]) -> bytes:
    table = pa.Table.from_pylist(rows)
    sink = pa.BufferOutputStream()
    with writer(sink, table.schema) as out:
        out.write_table(table, max_chunksize=5)
    return bytes(sink.getvalue())


def _tar(rows: Records) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for number, row in enumerate(rows):
            data = json.dumps(row).encode()
            info = tarfile.TarInfo(f"{number:05}.json")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def _zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data))


KINDS: dict[str, Callable[[Records], bytes]] = {
    "rows.jsonl": _lines,
    "rows.json": lambda rows: json.dumps(rows, indent=1).encode(),
    "lines.json": _lines,
    "rows.csv": lambda rows: _csv(rows, ","),
    "rows.tsv": lambda rows: _csv(rows, "\t"),
    "rows.jsonl.gz": lambda rows: gzip.compress(_lines(rows)),
    "rows.json.zst": lambda rows: _zstd(json.dumps(rows).encode()),
    "rows.csv.gz": lambda rows: gzip.compress(_csv(rows, ",")),
    "rows.parquet": _parquet,
    "rows.arrow": lambda rows: _arrow(rows, pa.ipc.new_file),
    "stream.arrow": lambda rows: _arrow(rows, pa.ipc.new_stream),
    "rows.tar": _tar,
}


def run_keys(folder: Path, *sources: dict[str, Any] | Path | str, **keys: Any) -> dict[str, Any]:
    """The keys of a run in file order over some sources."""
    entries = [
        each if isinstance(each, dict) else {"name": Path(each).name, "dtype": "conversation", "path": str(each)}
        for each in sources
    ]
    chat = {"tokenizer": TOKENIZER, "max_length": 256, **keys.pop("chat", {})}
    cache = {"dir": str(folder / "cache"), "size": "200MB"}
    mixture = {"weights": "equal"}
    return {
        "recipe": "chat",
        "batch_size": 4,
        "shuffle": False,
        "mixture": mixture,
        "cache": cache,
        "sources": entries,
        "chat": chat,
        **keys,
    }


def open_chat(folder: Path, *sources: dict[str, Any] | Path | str, **keys: Any) -> Feed:
    """Open a run in file order over some sources."""
    return penstock.open(**run_keys(folder, *sources, **keys))


def texts(feed: Feed, steps: int) -> list[str]:
    """The texts of the first steps."""
    return [text for step in range(steps) for text in feed.batch(step)["text"]]
