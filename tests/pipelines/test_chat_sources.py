"""Chat sources of every kind of file: the same records, the same batches."""

import json
from pathlib import Path

import pytest
from PIL import Image

from penstock.config import ConfigError
from tests.pipelines.chat_sources import KINDS, open_chat, records, texts
from tests.servers.web import Web
from tests.text.rendering import TOKENS

ROWS = records(30)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("expected")
    (folder / "rows.jsonl").write_bytes(KINDS["rows.jsonl"](ROWS))
    found = texts(open_chat(folder, folder / "rows.jsonl"), 8)
    assert [text.count("What is") for text in found] == [1] * 32
    assert "What is 29?" in found[29]
    assert "What is 1?" in found[31]  # the second pass has begun
    return found


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gives_the_same_batches(name: str, tmp_path: Path, expected: list[str]) -> None:
    (tmp_path / name).write_bytes(KINDS[name](ROWS))
    feed = open_chat(tmp_path, tmp_path / name)
    assert texts(feed, 8) == expected
    assert texts(open_chat(tmp_path, tmp_path / name, shuffle=True), 1) == texts(
        open_chat(tmp_path, tmp_path / name, shuffle=True), 1
    )
    feed.close()


def test_a_pattern_takes_files_of_several_kinds_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, rows in zip(("a.parquet", "b.jsonl.gz", "c.csv"), (ROWS[:10], ROWS[10:20], ROWS[20:]), strict=True):
        kind = next(kind for kind in KINDS if kind.endswith(name[1:]))
        (tmp_path / name).write_bytes(KINDS[kind](rows))
    (tmp_path / "notes.md").write_text("not data")
    found = texts(open_chat(tmp_path, tmp_path / "*"), 7)
    assert [f"What is {number}?" in text for number, text in enumerate(found)] == [True] * 28


def test_a_source_may_be_a_folder_with_splits(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-00000.jsonl").write_bytes(KINDS["rows.jsonl"](ROWS))
    (tmp_path / "data" / "test-00000.jsonl").write_bytes(KINDS["rows.jsonl"](records(5, "rainy")))
    source = {"name": "mine", "dtype": "conversation", "path": str(tmp_path / "data")}
    assert all("sunny" in text for text in texts(open_chat(tmp_path, source), 2))
    assert all("rainy" in text for text in texts(open_chat(tmp_path, {**source, "split": "test"}), 2))
    with pytest.raises(ConfigError, match="there is no split 'dev'; there are train, test"):
        open_chat(tmp_path, {**source, "split": "dev"})


def test_a_source_may_be_what_save_to_disk_wrote(tmp_path: Path) -> None:
    import datasets

    saved = datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)})
    saved.save_to_disk(str(tmp_path / "saved"))
    assert "What is 0?" in texts(open_chat(tmp_path, tmp_path / "saved"), 1)[0]


def test_a_split_that_a_source_does_not_have_is_refused_and_never_another_one_read(tmp_path: Path) -> None:
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "saved"))
    (tmp_path / "rows.jsonl").write_bytes(KINDS["rows.jsonl"](ROWS))
    for path in ("saved", "rows.jsonl", "*.jsonl"):
        with pytest.raises(ConfigError, match=r"there is no split 'test': .*remove `split`"):
            open_chat(tmp_path, {"name": "a", "dtype": "conversation", "path": str(tmp_path / path), "split": "test"})


def test_a_source_may_be_a_folder_of_images_that_a_file_describes(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    (folder / "some").mkdir(parents=True)
    for number in range(8):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / "some" / f"{number}.png")
    lines = [json.dumps({"file_name": f"some/{number}.png", **row}) for number, row in enumerate(ROWS[:8])]
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    feed = open_chat(tmp_path, folder, chat={"tokens": TOKENS, "image_size": 8})
    batch = feed.batch(0)
    assert batch["bad"] == []
    assert batch["images"].shape == (4, 3, 8, 8)
    (folder / "metadata.jsonl").unlink()
    with pytest.raises(ConfigError, match="a folder of media without a file that describes them"):
        open_chat(tmp_path, folder)


def test_all_that_is_wrong_with_any_source_comes_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / "good.jsonl").write_bytes(KINDS["rows.jsonl"](ROWS))
    with pytest.raises(ConfigError) as raised:
        open_chat(tmp_path, tmp_path / "none.jsonl", tmp_path / "good.jsonl", tmp_path / "notes.md", tmp_path / "*.csv")
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    assert "none.jsonl: there is no such file" in lines[0]
    assert "notes.md ends with none of .json, .jsonl" in lines[1]
    assert "*.csv: no file matches this pattern and ends with one of" in lines[2]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv.gz", "rows.parquet"])
def test_a_file_may_be_on_a_web_server(name: str, tmp_path: Path, expected: list[str]) -> None:
    with Web({f"/data/{name}": (KINDS[name](ROWS), '"1"')}) as web:
        assert texts(open_chat(tmp_path, f"{web.url}/data/{name}"), 8) == expected
