import os
import pickle

import pytest

from penstock.store.remote.direct import DirectStore
from penstock.store.remote.opening import FolderRemote
from penstock.store.remote.remote import ObjectChanged, ObjectMissing

DATA = bytes(range(256)) * 4


@pytest.fixture
def store(tmp_path):
    (tmp_path / "a").write_bytes(DATA)
    return DirectStore(FolderRemote(tmp_path))


def test_a_read_fills_the_buffer_from_the_offset_on(store):
    blob = store.open("a")
    for size in (0, 503):
        buffer = bytearray(size)
        blob.readinto(memoryview(buffer), 7)
        assert buffer == DATA[7 : 7 + size]
    assert blob.size == len(DATA)


def test_a_read_past_the_end_is_an_error(store):
    with pytest.raises(EOFError, match="has 1024"):
        store.open("a").readinto(memoryview(bytearray(2)), 1023)


def test_what_has_changed_since_it_was_opened_is_an_error(store, tmp_path):
    blob = store.open("a")
    (tmp_path / "a").write_bytes(DATA[::-1])
    os.utime(tmp_path / "a", ns=(1, 1))
    with pytest.raises(ObjectChanged):
        blob.readinto(memoryview(bytearray(2)), 0)


def test_what_is_not_there_is_told_at_open(store):
    with pytest.raises(ObjectMissing):
        store.open("b")


def test_it_reads_on_in_another_process_after_a_pickle(store):
    blob = pickle.loads(pickle.dumps(store)).open("a")
    buffer = bytearray(4)
    blob.readinto(memoryview(buffer), 0)
    assert bytes(buffer) == DATA[:4]
