"""What the tests of this room share: a folder with damaged samples, and the ledger of a run over it."""

import json
from pathlib import Path

import pytest

from penstock.feed import Feed
from penstock.readers.tar.index import index_shards
from penstock.store.local import LocalStore
from tests.observe.ledgers import Line, ledger
from tests.shards import content, damage, write_shards


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Indexed shards of which two samples are damaged."""
    folder = tmp_path_factory.mktemp("run")
    write_shards(folder)
    shards = [path.name for path in folder.glob("*.tar")]
    index_shards(LocalStore(folder), shards, folder / "index", filelist=folder / "train.tsv")
    for shard, name in (("bengali-0.tar", "bengali_0_1"), ("gujarati-1.tar", "gujarati_1_0")):
        damage(folder / shard, content(shard, name))
    return folder


@pytest.fixture(scope="module")
def written(damaged: Path) -> tuple[Feed, list[Line]]:
    feed = ledger(damaged, damaged / "usage.jsonl", global_batch_size=9)
    return feed, [json.loads(line) for line in (damaged / "usage.jsonl").read_text().splitlines()]
