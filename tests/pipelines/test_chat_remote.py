"""Chat sources in a bucket or on a web server: what is asked of the store, counted there."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from penstock.config import ConfigError
from tests.conftest import S3Prefix
from tests.pipelines.chat_sources import KINDS, open_chat, records, texts
from tests.servers.faultproxy import FaultProxy
from tests.servers.web import Web
from tests.text.rendering import TOKENS

MIB = 1 << 20
SOURCES = 100
ROWS = records(30)


def remote(proxy: FaultProxy, s3: S3Prefix, path: str, **keys: Any) -> dict[str, Any]:
    return {
        "name": path,
        "dtype": "conversation",
        "path": f"{s3.url}/{path}",
        "remote": {"endpoint": proxy.url, "region": "us-east-1"},
        **keys,
    }


@pytest.mark.long
def test_the_first_sample_of_100_sources_reads_none_of_them_whole_and_at_most_2_mib(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(6_000 * 400)  # of which compression leaves half: hexadecimal digits
    rows = [
        {"prompt": f"What is {number}?", "completion": noise[number * 6_000 :][:6_000].hex()} for number in range(400)
    ]
    kinds = (
        *("rows.jsonl", "rows.json", "rows.csv", "rows.jsonl.gz", "rows.json.zst", "rows.csv.gz", "rows.tar"),
        *("rows.arrow", "stream.arrow"),
    )
    data = {kind: KINDS[kind](rows) for kind in kinds}
    assert min(map(len, data.values())) > 2 * MIB
    paths = [f"/{number}/{kinds[number % len(kinds)]}" for number in range(SOURCES)]
    with Web({path: (data[Path(path).name], '"1"') for path in paths}) as web:
        sources = [{"name": path, "dtype": "conversation", "path": web.url + path} for path in paths]
        options = {"batch_size": SOURCES, "cache": {"dir": str(tmp_path / "cache"), "size": "1GB"}}
        feed = open_chat(tmp_path, *sources, chat={"max_length": 1 << 20}, **options)
        batch = feed.batch(0)
        assert sorted(batch["sources"]) == sorted(paths)
        assert all("What is 0?" in text for text in batch["text"])
        feed.close()
    for path in paths:
        assert sum(sent for method, asked, sent in web.sent if asked == path and method == "GET") <= 2 * MIB
        assert [method for method, asked, _ in web.sent if asked == path].count("HEAD") == 1


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv.gz", "rows.parquet", "rows.arrow", "rows.tar"])
def test_a_bucket_gives_the_same_batches_as_a_folder(
    name: str, s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    data = KINDS[name](ROWS)
    (tmp_path / name).write_bytes(data)
    s3.put(f"in/{name}", data)
    expected = texts(open_chat(tmp_path, tmp_path / name), 3)
    feed = open_chat(tmp_path, remote(proxy, s3, f"in/*{name[4:]}"))
    assert texts(feed, 3) == expected
    again = pickle.loads(pickle.dumps(feed))
    before = len(proxy.log())
    assert texts(again, 3) == expected
    assert not [each for each in proxy.log()[before:] if each.method == "HEAD" or "list-type" in each.query]
    feed.close()
    again.close()


def test_a_bucket_may_hold_what_save_to_disk_wrote(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    import datasets

    splits = {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(records(9, "rainy"))}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    for file in (tmp_path / "saved").rglob("*.*"):
        s3.put(f"saved/{file.relative_to(tmp_path / 'saved')}", file.read_bytes())
    for path, split in (("saved", "train"), ("saved", "test"), ("saved/test", "train")):
        local = {"name": "a", "dtype": "conversation", "path": str(tmp_path / path), "split": split}
        expected = texts(open_chat(tmp_path, local), 2)
        assert texts(open_chat(tmp_path, remote(proxy, s3, path, split=split)), 2) == expected
    with pytest.raises(ConfigError, match="there is no split 'dev'; there are train, test"):
        open_chat(tmp_path, remote(proxy, s3, "saved", split="dev"))
    state = (tmp_path / "saved" / "train" / "state.json").read_bytes()
    s3.put("part/state.json", state)
    with pytest.raises(ConfigError, match=r"part: data-00000-of-00001\.arrow is missing, which save_to_disk wrote"):
        open_chat(tmp_path, remote(proxy, s3, "part"))
    s3.put("torn/state.json", state[:-9])
    with pytest.raises(ConfigError, match=r"torn: state\.json is damaged"):
        open_chat(tmp_path, remote(proxy, s3, "torn"))


def test_a_folder_in_a_bucket_may_be_named_like_a_file(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    s3.put("rows.jsonl/part-0.jsonl", KINDS["rows.jsonl"](ROWS))
    (tmp_path / "rows.jsonl").write_bytes(KINDS["rows.jsonl"](ROWS))
    expected = texts(open_chat(tmp_path, tmp_path / "rows.jsonl"), 2)
    assert texts(open_chat(tmp_path, remote(proxy, s3, "rows.jsonl/")), 2) == expected


def test_a_pattern_means_the_same_in_a_bucket_as_in_a_folder(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    for name, word in (
        ("in/a.jsonl", "one"),
        ("in/notes.md", "two"),
        ("in/x/a.jsonl", "three"),
        ("in/y/a.jsonl", "four"),
    ):
        data = KINDS["rows.jsonl"](records(3, word))
        s3.put(name, data)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for pattern in ("in/*", "in/*.jsonl", "in/*/a.jsonl", "in/**/a.jsonl", "in/[x]/*"):
        expected = texts(open_chat(tmp_path, tmp_path / pattern), 3)
        assert texts(open_chat(tmp_path, remote(proxy, s3, pattern)), 3) == expected


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.parquet", "rows.tar"])
def test_a_run_in_file_order_fetches_ahead_though_no_group_is_known_at_its_start(name: str, tmp_path: Path) -> None:
    with Web({f"/{name}": (KINDS[name](ROWS), '"1"')}) as web:
        feed = open_chat(tmp_path, f"{web.url}/{name}")
        assert feed.start_fetching() is not None
        assert "GET" not in [method for method, _, _ in web.asked], "nothing is read for that"
        assert len(feed.batch(0)["text"]) == 4
        feed.close()


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.parquet", "rows.arrow", "rows.tar"])
def test_what_groups_take_in_the_cache_is_known_without_a_request_where_the_index_is_there(
    name: str, tmp_path: Path
) -> None:
    data = KINDS[name](records(3_000))
    taken = {
        "rows.jsonl.gz": len(KINDS["rows.jsonl"](records(3_000))),
    }
    with Web({f"/{name}": (data, '"1"')}) as web:
        open_chat(tmp_path, f"{web.url}/{name}", shuffle=True).close()
        feed = open_chat(tmp_path, f"{web.url}/{name}", shuffle=True)
        before = len(web.asked)
        sizes = feed.catalog.group_bytes(0)
        feed.start_fetching()
        assert len(web.asked) == before
        feed.close()
    assert sizes is not None and len(sizes) == len(feed.catalog.group_sizes(0))
    assert sum(sizes) == pytest.approx(taken.get(name, len(data)), rel=0.2 if name == "rows.parquet" else 0)


def test_a_cache_that_is_too_small_for_a_chat_run_is_an_error_at_its_start(tmp_path: Path) -> None:
    with Web({"/rows.jsonl": (KINDS["rows.jsonl"](records(30_000)), '"1"')}) as web:
        keys = {"cache": {"dir": str(tmp_path / "cache"), "size": "3MB"}, "chat": {"max_length": 1 << 16}}
        feed = open_chat(tmp_path, f"{web.url}/rows.jsonl", shuffle=True, **keys)
        with pytest.raises(ConfigError, match=r"cache\.size: .* or the run a smaller pool than"):
            feed.start_fetching()


def photo(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 255, (96, 96, 3), dtype=np.uint8)
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "png")
    return sink.getvalue()


def test_the_index_of_a_table_reads_no_images_and_a_run_only_those_of_its_groups(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    rows = [{**row, "image": {"bytes": photo(number), "path": None}} for number, row in enumerate(records(120))]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=40)
    data = sink.getvalue()
    images = sum(len(row["image"]["bytes"]) for row in rows)
    assert images > 0.95 * len(data)
    s3.put("images.parquet", data)
    source = remote(proxy, s3, "images.parquet")
    feed = open_chat(tmp_path, source, shuffle=True, chat={"tokens": TOKENS, "image_size": 32})  # indexed whole
    read = sum(each.sent for each in proxy.log("GET"))
    assert read < len(data) - images + 128 * 1024  # 64 KiB of the end are read to find the footer
    assert feed.batch(0)["images"].shape[0] == 4
    feed.close()


def test_what_is_missing_in_a_bucket_is_named_with_all_else_that_is_wrong(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    s3.put("here.jsonl", KINDS["rows.jsonl"](ROWS))
    with pytest.raises(ValueError, match="sources: ") as raised:
        open_chat(tmp_path, remote(proxy, s3, "here.jsonl"), remote(proxy, s3, "gone.jsonl"), tmp_path / "no.csv")
    lines = str(raised.value).splitlines()
    assert len(lines) == 2
    assert "gone.jsonl" in lines[0]
    assert "no.csv: there is no such file or folder" in lines[1]
