"""Files that local records name: below their own folder and `media_root`, whatever the records lie in."""

import io
import json
import os
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from penstock.config import ConfigError
from tests.cli.commands import run as command
from tests.recipes.chat_runs import run, source
from tests.recipes.processors import llava

SECRET = "xyzzy: a private file"


def jsonl(folder: Path, images: list[Any]) -> Path:
    path = folder / "records.jsonl"
    path.write_text("\n".join(json.dumps(asked(image)) for image in images))
    return path


def parquet(folder: Path, images: list[Any]) -> Path:
    path = folder / "records.parquet"
    rows = [asked({"bytes": None, "path": image}) for image in images]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def tar(folder: Path, images: list[Any]) -> Path:
    path = folder / "records.tar"
    with tarfile.open(path, "w") as file:
        for number, image in enumerate(images):
            data = json.dumps(asked(image)).encode()
            info = tarfile.TarInfo(f"{number}.json")
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def asked(image: Any) -> dict[str, Any]:
    return {"image": image, "question": "What is it?", "answer": "A cat."}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of records, with one image in it, and others beside it."""
    for name in ("data/own.png", "media/there.png", "private.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (200, 10, 10)).save(tmp_path / name)
    (tmp_path / "private.txt").write_text(SECRET)
    os.symlink(tmp_path / "media", tmp_path / "data" / "linked")
    return tmp_path / "data"


def batch(path: Path, rows: int, **keys: Any) -> dict[str, Any]:
    with closing(run([source(path, **keys)], batch_size=rows)) as feed:
        return feed.batch(0)


@pytest.mark.parametrize("write", [jsonl, parquet, tar])
@pytest.mark.parametrize(
    "named", ["{top}/private.png", "file://{top}/private.png", "../private.png", "linked/there.png"]
)
def test_the_first_other_file_ends_the_run_and_one_line_allows_it(
    data: Path, write: Callable[[Path, list[Any]], Path], named: str
) -> None:
    path = write(data, ["own.png", named.format(top=data.parent)])
    with pytest.raises(ConfigError, match=r"names .*; add `media_root: ") as refusal:
        batch(path, 2)
    [allowed] = [part for part in str(refusal.value).split("`") if part.startswith("media_root: ")]
    for root in (allowed.removeprefix("media_root: "), "/", [str(data), str(data.parent)]):
        made = batch(path, 2, media_root=root)
        assert made["bad"] == [] and len(made["images"]) == 2


def test_worker_processes_say_the_same(data: Path) -> None:
    path = jsonl(data, ["own.png", str(data.parent / "private.png")])
    feed = run([source(path)], batch_size=2)
    with pytest.raises(Exception, match="add `media_root: "), feed.loader(workers=1) as loader:
        next(iter(loader))
    feed.close()


@pytest.mark.parametrize("dtype", ["vision", "video", "voice_asr"])
def test_no_message_shows_the_bytes_of_a_file_that_is_no_medium(data: Path, dtype: str) -> None:
    kind = {"vision": "image", "video": "video", "voice_asr": "audio"}[dtype]
    good = {"vision": "own.png"}.get(dtype)
    records = [{**asked(None), "text": "A cat.", kind: name} for name in ("../private.txt", *([good] if good else []))]
    path = data / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    with closing(run([source(path, dtype, media_root=str(data.parent))], batch_size=len(records), passes=1)) as feed:
        try:
            said = " ".join(bad.reason for bad in feed.batch(0)["bad"])
        except Exception as error:  # nothing else in the batch
            said = str(error)
    assert said and not any(SECRET[:length] in said for length in range(4, len(SECRET)))


def test_relative_paths_may_be_relative_to_another_folder_than_that_of_the_records(data: Path) -> None:
    path = jsonl(data, ["media/there.png", "own.png"])
    assert [bad.reason.split(",")[0] for bad in batch(path, 2)["bad"]][:1] == ["the record names 'media/there.png'"]
    made = batch(path, 2, media_root=str(data.parent))
    assert made["bad"] == [] and len(made["images"]) == 2


def write_config(data: Path, images: list[str], **keys: Any) -> Path:
    llava().save_pretrained(data.parent / "processor")
    entry = {"name": "asked", "dtype": "vision", "path": jsonl(data, images).name, **keys}
    config = {
        "recipe": "chat",
        "batch_size": 1,
        "sources": [entry],
        "chat": {"processor": str(data.parent / "processor"), "max_length": 64, "pack": True},
        "cache": {"dir": str(data.parent / "cache"), "size": "1GB"},
    }
    path = data / "run.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_index_ends_with_one_sentence_and_looks_again_where_media_root_has_changed(data: Path) -> None:
    outside = command("index", write_config(data, ["own.png", str(data.parent / "private.png")]))
    assert outside.exit_code == 2
    assert "add `media_root: " in " ".join(outside.output.split()) and "Traceback" not in outside.output
    missing = command("index", write_config(data, ["own.png", "there.png"]))
    assert missing.exit_code == 0 and "1 items of 2 records" in missing.output, missing.output
    found = command("index", write_config(data, ["own.png", "there.png"], media_root="../media"))
    assert found.exit_code == 0 and "2 items of 2 records" in found.output, found.output


@pytest.mark.parametrize(
    ("root", "sentence"),
    [
        ("no/such", r"media_root: there is no folder /\S+/no/such"),
        ("s3://bucket/media", "a folder of this machine"),
        (5, "a folder, or a list of folders"),
    ],
)
def test_a_media_root_that_can_not_be_is_refused(data: Path, root: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        run([source(jsonl(data, ["own.png"]), media_root=root)])


def test_a_state_fits_wherever_the_media_lie(data: Path) -> None:
    path = jsonl(data, ["own.png"])
    states = []
    for root in (data, data.parent):
        with closing(run([source(path, media_root=str(root))], batch_size=1)) as feed:
            states.append(feed.state(3))
    assert states[0] == states[1]
