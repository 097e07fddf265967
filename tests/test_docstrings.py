"""Every exported name has an example in its docstring that runs, on small data of every recipe."""

import doctest
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from tests.readers.tar.archives import write_tar
from tests.shards import write_shards
from tests.text.made_tokenizers import byte_level

DATA = Path(__file__).parent / "data"
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what examples name: a run, shards, clips, records, a tokenizer and a robot dataset."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "shards").mkdir()
    write_shards(folder / "shards")
    run = {"recipe": "raw", "batch_size": 4, "filelist": "shards/train.tsv", "store": "shards", "pool": 2}
    own = {"mixture": {"weights": "equal"}, "cache": {"dir": "cache", "size": "1GB"}}
    (folder / "run.yaml").write_text(yaml.safe_dump(run | own))
    clips = {path.name: path.read_bytes() for path in sorted((DATA / "speech").iterdir()) if path.suffix == ".wav"}
    (folder / "speech").mkdir()
    write_tar(folder / "speech" / "shard.tar", clips.items())
    listed = "".join(f"shard.tar\t{name.partition('.')[0]}\tenglish\t5.0\n" for name in clips)
    (folder / "speech" / "train.tsv").write_text(listed)
    questions = [{"prompt": f"{number}?", "completion": f"{number}!"} for number in range(8)]
    (folder / "chat.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in questions))
    (folder / "tales.jsonl").write_text('{"text": "Once upon a time."}\n')
    byte_level(chat_template=TEMPLATE).save_pretrained(folder / "tokenizer")
    (folder / "robot").symlink_to(DATA / "robot" / "two_cameras_h264")
    return folder


@pytest.mark.parametrize("name", penstock.__all__)
def test_an_exported_name_has_an_example_that_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "home"))
    text = getattr(penstock, name).__doc__ or ""
    assert re.search(r"^\s*Examples:$", text, re.MULTILINE), f"penstock.{name} has no example in its docstring"
    scope: dict[str, Any] = {}
    example = doctest.DocTestParser().get_doctest(text, scope, f"penstock.{name}", None, None)
    assert example.examples
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=report.append, clear_globs=False)
    if isinstance(scope.get("feed"), penstock.Feed):
        scope["feed"].close()
    assert "".join(report) == ""
