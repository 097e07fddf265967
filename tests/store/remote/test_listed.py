"""Listed objects are found by path, and their pickle is small where arrays lie beside it."""

import pickle

import pytest

from penstock.runtime.mappedpickle import dump_mapped
from penstock.store.remote.listed import ListedObjects
from penstock.store.remote.remote import ObjectInfo

INFOS = {f"b/{number}.parquet": ObjectInfo(number, f"etag {number}") for number in (*range(50), 10**12)}


def test_every_object_is_found_by_its_path_and_no_other() -> None:
    listed = pickle.loads(pickle.dumps(ListedObjects(INFOS)))
    assert listed == INFOS and len(listed) == len(INFOS)
    for path in ("", "b/", "b/7", "z"):
        assert path not in listed and listed.get(path) is None
        with pytest.raises(KeyError):
            listed[path]
    assert not ListedObjects({})


def test_the_pickle_does_not_grow_with_the_objects() -> None:
    many = {f"b/{number}": ObjectInfo(number, "e") for number in range(10_000)}
    assert len(list(dump_mapped(ListedObjects(many)))[2]) < 2_000
