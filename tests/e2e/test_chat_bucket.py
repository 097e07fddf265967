"""Chat data in a bucket behind the proxy: what is fetched, by whom, and that batches are those of local files."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.conftest import S3Prefix
from tests.e2e.chat_golden import MEDIA, NAMED
from tests.e2e.chat_run import MODALITIES, chat_run, copy_files, digest, source
from tests.servers.faultproxy import FaultProxy
from tests.text.formats.test_demo_files import DATA, FILES, records

STEPS = 6
QUICK = [name for name in FILES if name != "mllm_video_demo.json"]  # decoding videos takes most of the time


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chat")
    copy_files(made)
    return made


@pytest.fixture
def bucket(s3: S3Prefix) -> S3Prefix:
    for name in FILES:
        s3.put(name, (DATA / name).read_bytes())
    for file in MEDIA.iterdir():
        s3.put(f"{NAMED}/{file.name}", file.read_bytes())
    return s3


def sources(where: object, names: Any, **keys: Any) -> list[dict[str, Any]]:
    return [source(name, where, **keys) for name in names]


def remote(bucket: S3Prefix, proxy: FaultProxy, folder: Path, cache: Path, **options: Any) -> dict[str, Any]:
    """The run over all files, from the bucket, with a cold cache."""
    names = options.pop("names", FILES)
    through = {"endpoint": proxy.url, "region": "us-east-1"}
    own = {"cache": {"dir": str(cache), "size": "1GB"}, "mixture": {"weights": "equal"}}
    return chat_run(folder, sources(bucket.url, names, remote=through), **{**own, **options})


def fetched_media(bucket: S3Prefix, proxy: FaultProxy) -> set[str]:
    prefix = f"{bucket.prefix}/{NAMED}/"
    return {entry.key.removeprefix(prefix) for entry in proxy.log("GET") if entry.key.startswith(prefix)}


def named_media(name: str, row: int) -> set[str]:
    record = records(name)[row]
    kind = MODALITIES[name]
    return {Path(path).name for path in record[f"{kind}s"]}


def test_media_are_fetched_for_emitted_samples_only(
    bucket: S3Prefix, proxy: FaultProxy, folder: Path, tmp_path: Path
) -> None:
    config = remote(bucket, proxy, folder, tmp_path, names=MODALITIES, global_batch_size=1, chat={"pack": False})
    feed = penstock.open(config)
    assert fetched_media(bucket, proxy) == set(), "the index of all records reads no media"
    names = {Path(name).stem: name for name in MODALITIES}
    wanted: set[str] = set()
    for step in range(STEPS):
        batch = feed.batch(step)
        assert batch["bad"] == []
        wanted |= named_media(names[batch["sources"][0]], int(batch["ids"][0]))
        assert fetched_media(bucket, proxy) == wanted
    keys = [(entry.key, entry.start) for entry in proxy.log("GET")]
    assert len(keys) == len(set(keys)), "no byte is fetched twice"


@pytest.mark.long
def test_batches_are_those_of_local_files_with_worker_processes_and_after_a_resume(
    bucket: S3Prefix, proxy: FaultProxy, folder: Path, tmp_path: Path
) -> None:
    local = penstock.open(chat_run(folder, sources(folder, QUICK), mixture={"weights": "equal"}, chat={"pack": True}))
    whole = [digest(local.batch(step)) for step in range(STEPS)]
    config = remote(bucket, proxy, folder, tmp_path, names=QUICK, chat={"pack": True})
    with penstock.open(config).loader(workers=2) as loader:
        assert [digest(batch) for batch in islice(loader, 3)] == whole[:3]
        state = loader.state_dict()
    with penstock.open(config).loader(threads=2) as loader:
        loader.load_state_dict(state)
        assert [digest(batch) for batch in islice(loader, STEPS - 3)] == whole[3:]
