"""``penstock index --to``: indexes in a real bucket, taken by runs of other nodes; what is missing or damaged there."""

import json
import pickle
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from click.testing import Result

import penstock
from penstock.store.cache.maintenance import INDEXES
from penstock.store.remote.remote import StoreError
from tests.cli.commands import complaint, run
from tests.conftest import S3Prefix
from tests.pipelines.chat_sources import TOKENIZER, records, run_keys
from tests.servers.faultproxy import FaultProxy, Rule
from tests.shards import write_shard, write_shards

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
    assert ["/indexes/indexes/" in each.path for each in proxy.log("PUT")][-1], "the marker is written last"
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
        StoreError, match=r"there is no indexes/\*\.json, so no index was uploaded, or not all of it; run  pen"
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
    with pytest.raises(StoreError, match=r"is damaged, which is .* of the index; run  penstock index … --to s3:"):
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


@pytest.fixture
def speech(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> MakeNode:
    """Make the config of a node, whose shards and manifest are in the bucket, behind the proxy."""
    (tmp_path / "shards").mkdir()
    write_shards(tmp_path / "shards", bytes_each=1_000)
    for path in (tmp_path / "shards").glob("*.tar"):
        s3.put(f"data/{path.name}", path.read_bytes())

    def make(name: str) -> Path:
        keys = {
            "manifest": f"{s3.url}/train.index",
            "store": f"{s3.url}/data",
            "remote": {"endpoint": proxy.url, "region": "us-east-1"},
            "cache": {"dir": str(tmp_path / name), "size": "1GB"},
            "global_batch_size": 12,
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(keys))
        return path

    return make


def index_shards_to(s3: S3Prefix, proxy: FaultProxy, out: Path) -> Result:
    """Index the shards in the bucket, and upload the manifest."""
    remote = ("--endpoint", proxy.url, "--region", "us-east-1")
    return run("index", f"{s3.url}/data", "-o", out, "--workers", "0", "--to", f"{s3.url}/train.index", *remote)


def test_another_node_takes_the_manifest_of_tar_shards_and_its_batches_are_the_same(
    speech: MakeNode, s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    done = index_shards_to(s3, proxy, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert f"use it with  manifest: {s3.url}/train.index  and  store: {s3.url}/data" in done.stdout
    put = [each.path for each in proxy.log("PUT")]
    assert len(put) == 1 + len(list((tmp_path / "out").iterdir())) and put[-1].endswith("/indexes/manifest.json")
    at_home = speech("home")
    at_home.write_text(at_home.read_text().replace(f"{s3.url}/train.index", str(tmp_path / "out")))
    with closing(penstock.open(at_home)) as feed:
        expected = feed.batch(7)["records"]
        state = feed.state(7)
    proxy.clear()
    with closing(penstock.open(speech("two"))) as feed:
        assert not [each for each in proxy.log("GET") if "/data/" in each.path], "nothing is indexed again"
        assert feed.resume(state) == 7 and feed.batch(7)["records"] == expected
    proxy.clear()
    with closing(penstock.open(speech("two"))):
        assert [each.method for each in proxy.log() if "/train.index/" in each.path] == ["HEAD"], "only the marker"
    two = tmp_path / "two" / ".penstock" / "manifests"
    [taken] = two.iterdir()
    assert {path.name: path.read_bytes() for path in taken.glob("[!.]*")} == {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()
    }


def test_a_manifest_that_is_uploaded_again_is_taken_anew_and_runs_keep_theirs(
    speech: MakeNode, s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    assert index_shards_to(s3, proxy, tmp_path / "out").exit_code == 0
    proxy.clear()
    assert "0 uploaded" in index_shards_to(s3, proxy, tmp_path / "out").stdout
    assert len(proxy.log("PUT")) == 1, "the marker"
    two = speech("two")
    with closing(penstock.open(two)) as before:
        write_shard(tmp_path / "odia-0.tar", {"odia_0": b"new"})
        s3.put("data/odia-0.tar", (tmp_path / "odia-0.tar").read_bytes())
        assert index_shards_to(s3, proxy, tmp_path / "out").exit_code == 0
        with closing(penstock.open(two)) as after:
            assert sum(after.catalog.group_sizes(0)) == sum(before.catalog.group_sizes(0)) + 1
        again = pickle.loads(pickle.dumps(before))
        assert again.batch(3)["records"] == before.batch(3)["records"], "workers map what the run has mapped"


def test_a_manifest_half_uploaded_to_a_full_bucket_is_no_manifest_until_the_rest_is_there(
    speech: MakeNode, s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.rules(
        Rule("delay", method="PUT", key="/objects/", times=3), Rule("status", method="PUT", key="/objects/", status=507)
    )
    said = complaint(index_shards_to(s3, proxy, tmp_path / "out"))
    assert "HTTP 507" in said and said.endswith("what is uploaded stays, and the same command uploads the rest")
    two = speech("two")
    said = complaint(run("plan", two, "--steps", "0:1"))
    assert said.endswith(
        f"there is no indexes/*.json, so no index was uploaded, or not all of it; run  penstock index … --to {s3.url}"
        "/train.index  again"
    )
    proxy.clear()
    assert index_shards_to(s3, proxy, tmp_path / "out").exit_code == 0
    assert len(proxy.log("PUT")) == 1 + len(list((tmp_path / "out").iterdir())) - 3
    assert not [each for each in proxy.log("GET") if "/data/" in each.path], "no shard is read again"
    key, size = next((key, info.size) for key, info in s3.remote().list("train.index/objects"))
    s3.put(key, bytes(size))
    assert "is damaged, which is" in complaint(run("plan", two, "--steps", "0:1"))
    assert index_shards_to(s3, proxy, tmp_path / "out").exit_code == 0
    assert run("plan", two, "--steps", "0:1").exit_code == 0


def test_where_a_manifest_cannot_be_uploaded_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    out = tmp_path / "out"
    said = complaint(run("index", tmp_path / "data", "-o", out, "--to", tmp_path / "to"))
    assert said == f"--to {tmp_path / 'to'}: the manifest of tar shards is a folder already, {out}; --to is for buckets"
    said = complaint(run("index", tmp_path / "data", "-o", "s3://bucket/out"))
    assert said == "-o s3:/bucket/out: name a folder of this machine, and the bucket with --to"


def test_several_configs_share_a_prefix_and_each_run_takes_its_own(
    node: MakeNode, s3: S3Prefix, proxy: FaultProxy
) -> None:
    one, other = node("one"), node("other")
    s3.put("data/large2.jsonl", b"".join(f"{json.dumps(each)}\n".encode() for each in records(50)))
    other.write_text(other.read_text().replace("data/*.jsonl", "data/large2.jsonl"))
    index_to(one, s3, proxy)
    index_to(other, s3, proxy)
    for config in (one, other):
        home = config.with_suffix("")
        taking = config.with_name(f"taking-{config.name}")
        taking.write_text(config.read_text().replace(f"dir: {home}\n", f"dir: {home}-taking\n"))
        proxy.clear()
        with closing(penstock.open(taking)):
            assert not [each for each in proxy.log("GET") if "/data/" in each.path], "nothing is indexed again"


def test_a_config_without_an_index_of_its_own_takes_all_that_there_are(
    node: MakeNode, s3: S3Prefix, proxy: FaultProxy
) -> None:
    index_to(node("one"), s3, proxy)
    two = node("two")
    keys = yaml.safe_load(two.read_text())
    keys["sources"][0]["limit"] = 100
    two.write_text(yaml.safe_dump(keys))
    proxy.clear()
    with closing(penstock.open(two)):
        assert not [each for each in proxy.log("GET") if "/data/" in each.path], "nothing is indexed again"
