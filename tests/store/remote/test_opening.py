import pickle
from pathlib import Path

import pytest

from penstock.store.remote.hub import BucketRemote, DatasetRemote
from penstock.store.remote.objects import ObjectRemote
from penstock.store.remote.opening import FolderRemote, open_remote
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, ObjectMissing


def test_the_url_decides_what_is_opened_and_nothing_is_asked_yet(tmp_path: Path) -> None:
    assert isinstance(open_remote(str(tmp_path)), FolderRemote)
    assert isinstance(open_remote(tmp_path.as_uri()), FolderRemote)
    assert isinstance(open_remote("hf://datasets/org/name"), DatasetRemote)
    assert isinstance(open_remote("hf://buckets/org/name"), BucketRemote)
    for url in ("s3://bucket/x", "r2://account/bucket/x", "gs://bucket/x", "az://c/x", "https://host/x"):
        remote = open_remote(url)
        assert isinstance(remote, ObjectRemote)
        assert remote.url == url
        assert pickle.loads(pickle.dumps(remote)).url == url


def test_a_folder_reads_like_a_remote_store(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(b"12345")
    (tmp_path / "a").write_bytes(b"")
    remote = FolderRemote(tmp_path)
    info = remote.head("b/c")
    assert bytes(remote.get_range("b/c", 1, 4, info.etag)) == b"234"
    assert list(remote.list()) == [("a", remote.head("a")), ("b/c", ObjectInfo(5, info.etag))]
    assert list(remote.list("b")) == [("b/c", info)]
    (tmp_path / "b" / "c").write_bytes(b"123456")
    with pytest.raises(ObjectChanged, match="b/c: version"):
        remote.get_range("b/c", 1, 4, info.etag)
    for missing in (lambda: remote.head("nope"), lambda: list(remote.list("nope"))):
        with pytest.raises(ObjectMissing, match="nope: no such"):
            missing()
