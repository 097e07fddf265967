import os
import pickle

import pytest

from penstock.store.remote import ObjectChanged, ObjectInfo


def test_ranges_of_an_object_are_its_bytes(s3) -> None:
    data = os.urandom(100_000)
    etag = s3.put("a/b c.bin", data)
    remote = s3.remote()
    assert remote.head("a/b c.bin") == ObjectInfo(len(data), etag)
    for start, end in [(0, 1), (0, len(data)), (99_999, 100_000), (17, 70_001), (5, 5)]:
        assert bytes(remote.get_range("a/b c.bin", start, end, etag)) == data[start:end]
    assert list(remote.list()) == [("a/b c.bin", ObjectInfo(len(data), etag))]
    assert pickle.loads(pickle.dumps(remote)).head("a/b c.bin").size == len(data)


def test_another_version_is_never_read(s3) -> None:
    old = s3.put("x", b"old bytes")
    s3.put("x", b"new bytes")
    with pytest.raises(ObjectChanged, match=r"/x: .*replaced"):
        s3.remote().get_range("x", 0, 3, old)
