"""``penstock index --to``: indexes in a real bucket, taken by runs of other nodes; what is missing or damaged there."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import yaml

import penstock
from penstock.readers.publishedshelf import MARKER
from penstock.store.cache.maintenance import INDEXES
from penstock.store.remote.remote import StoreError
from tests.cli.commands import complaint, run
from tests.conftest import S3Prefix
from tests.pipelines.chat_sources import TOKENIZER, records, run_keys
from tests.servers.faultproxy import FaultProxy, Rule

MakeNode = Callable[[str], Path]


@pytest.fixture
def node(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> MakeNode:
    """Make the config of a node with a cache of its own. Data and indexes are in the bucket, behind the proxy."""
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")
    lines = [json.dumps({**each, "more": "x" * 1_000}) for each in records(1_500)]
    s3.put("data/large.jsonl", "".join(f"{line}\n" for line in lines).encode())
    for number in range(3):
        s3.put(f"data/small{number}.jsonl", "".join(f"{line}\n" for line in lines[number * 9 :][:9]).encode())
    remote = {"endpoint": proxy.url, "region": "us-east-1"}

    def make(name: str) -> Path:
        source = {"name": "chats", "dtype": "conversation", "path": f"{s3.url}/data/*.jsonl", "remote": remote}
        keys = run_keys(tmp_path, source, chat={"pack": True, "tokenizer": str(tmp_path / "tokenizer")}, shuffle=True)
        keys["cache"]["dir"] = str(tmp_path / name)
        keys["indexes"] = {"store": f"{s3.url}/indexes", "remote": remote}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(keys))
        return path

    return make


def index_to(config: Path, s3: S3Prefix, proxy: FaultProxy) -> tuple[int, str]:
    """Index and upload; the number of objects that were put, and what was printed."""
    proxy.clear()
    result = run(
        *("index", config, "--workers", "0", "--to", f"{s3.url}/indexes"),
        *("--endpoint", proxy.url, "--region", "us-east-1"),
    )
    assert result.exit_code == 0, result.output
    return sum("/indexes/objects/" in each.path for each in proxy.log("PUT")), result.stdout


def shelf_of(config: Path) -> dict[str, bytes]:
    shelf = config.with_suffix("") / ".penstock" / INDEXES
    found = [path for path in shelf.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(shelf).as_posix(): path.read_bytes() for path in found}


def first_object(s3: S3Prefix) -> tuple[str, int]:
    """The key and the size of an object of the index."""
    return next((key, info.size) for key, info in s3.remote().list("indexes/objects"))


def test_a_run_of_another_node_takes_the_index_and_reads_no_data(
    node: MakeNode, s3: S3Prefix, proxy: FaultProxy
) -> None:
    one = node("one")
    put, said = index_to(one, s3, proxy)
    assert put > 3 and f"indexes: {{store: {s3.url}/indexes}}" in said
    assert [each.path.endswith(MARKER) for each in proxy.log("PUT")][-1], "the marker is written last"
    with closing(penstock.open(one)) as feed:
        expected = feed.batch(7)["input_ids"].tolist()
    proxy.clear()
    two = node("two")
    with closing(penstock.open(two)) as feed:
        assert not [each for each in proxy.log("GET") if "/data/" in each.path], "nothing is indexed again"
        assert shelf_of(two).items() <= shelf_of(one).items()
        assert {Path(name).suffix for name in shelf_of(two)} == {".learnt", ".items", ".table"}
        assert feed.batch(7)["input_ids"].tolist() == expected
    proxy.clear()
    with closing(penstock.open(two)):
        assert len([each for each in proxy.log() if "/indexes/" in each.path]) == 1, "only the marker is looked at"


def test_a_second_upload_puts_nothing_and_one_after_new_data_only_what_is_new(
    node: MakeNode, s3: S3Prefix, proxy: FaultProxy
) -> None:
    one = node("one")
    first, _ = index_to(one, s3, proxy)
    assert index_to(one, s3, proxy)[0] == 0
    s3.put("data/small9.jsonl", f"{json.dumps(records(1)[0])}\n".encode())
    assert 0 < index_to(one, s3, proxy)[0] < first
    proxy.clear()
    with closing(penstock.open(node("two"))):
        assert not [each for each in proxy.log("GET") if "small9" in each.path]


def test_a_full_bucket_is_one_sentence_and_a_rerun_uploads_the_rest(
    node: MakeNode, s3: S3Prefix, proxy: FaultProxy
) -> None:
    one = node("one")
    assert run("index", one, "--workers", "0").exit_code == 0
    total = len(shelf_of(one))
    proxy.rules(
        Rule("delay", method="PUT", key="/indexes/", times=3), Rule("status", method="PUT", key="/indexes/", status=507)
    )
    options = ("--endpoint", proxy.url, "--region", "us-east-1")
    said = complaint(run("index", one, "--workers", "0", "--to", f"{s3.url}/indexes", *options))
    assert "HTTP 507" in said and said.endswith("what is uploaded stays, and the same command uploads the rest")
    uploaded = len(list(s3.remote().list("indexes/objects")))
    with pytest.raises(
        StoreError, match=r"there is no index\.json, so no index was uploaded, or not all of it; run  pen"
    ):
        penstock.open(node("two"))
    assert uploaded == 3 and index_to(one, s3, proxy)[0] == total - uploaded
    with closing(penstock.open(node("two"))):
        assert not [each for each in proxy.log("GET") if "/data/" in each.path]


def test_a_damaged_object_is_one_sentence_and_uploaded_again(node: MakeNode, s3: S3Prefix, proxy: FaultProxy) -> None:
    one = node("one")
    index_to(one, s3, proxy)
    key, size = first_object(s3)
    s3.put(key, bytes(size))
    two = node("two")
    with pytest.raises(StoreError, match=r"is damaged, which is .* of the index; run  penstock index CONFIG --to s3:"):
        penstock.open(two)
    assert run("plan", two, "--steps", "0:1").exit_code == 2
    assert index_to(one, s3, proxy)[0] == 1
    with closing(penstock.open(two)):
        assert shelf_of(one).items() <= shelf_of(two).items()


def test_a_folder_serves_as_a_bucket_does_and_names_a_missing_file(node: MakeNode, tmp_path: Path) -> None:
    one = node("one")
    to = tmp_path / "published"
    result = run("index", one, "--workers", "0", "--to", to)
    assert result.exit_code == 0, result.output
    two = node("two")
    keys = yaml.safe_load(two.read_text())
    two.write_text(yaml.safe_dump({**keys, "indexes": {"store": str(to)}}))
    lost = next((to / "objects").iterdir())
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(StoreError, match=f"objects/{lost.name} is missing, which is .* of the index; run  penstock"):
        penstock.open(two)
    lost.write_bytes(content)
    with closing(penstock.open(two)):
        assert shelf_of(one).items() <= shelf_of(two).items()


def test_where_nothing_can_be_written_is_said_at_once(node: MakeNode, tmp_path: Path) -> None:
    one = node("one")
    said = complaint(run("index", one, "--to", "https://example.org/indexes"))
    assert said == "https://example.org/indexes: cannot be written; use a folder or a bucket"
    assert not (tmp_path / "one").exists()
    assert "--to, --shard" in complaint(run("index", one, "--to", tmp_path / "x", "--shard", "0/2"))
    assert "--to" in complaint(run("index", tmp_path, "-o", tmp_path / "out", "--to", tmp_path / "x"))
