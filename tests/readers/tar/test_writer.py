"""Sorting and cutting: what a plan may rely on."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.manifest.errors import ManifestError
from penstock.readers.tar.layout import MAX_GROUP, Shard
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.writer import ItemTable, write_manifest


def items_of(sizes: dict[tuple[int, int], int]) -> ItemTable:
    """So many items for each (source, shard); the codes of the names do not sort like the names."""
    source = np.repeat([key[0] for key in sizes], list(sizes.values())).astype(np.int32)
    shard = np.repeat([key[1] for key in sizes], list(sizes.values())).astype(np.int32)
    ids = pa.array([f"{number}" for number in range(len(source))], type=pa.large_string())
    shards = [Shard(f"{9 - number}.tar", None, None) for number in range(10)]
    return ItemTable(ids, np.ones(len(source)), shard, source, shards, [f"{9 - number}" for number in range(10)])


CODES = st.integers(0, 9)
SIZES = st.dictionaries(
    st.tuples(CODES, CODES), st.sampled_from([1, 2, 50, MAX_GROUP, MAX_GROUP + 1, 3 * MAX_GROUP + 1]), min_size=1
)


@settings(max_examples=40, deadline=None)
@given(SIZES)
def test_groups_cover_every_item_once_sorted_even_and_none_too_large(
    tmp_path_factory: pytest.TempPathFactory, sizes: dict[tuple[int, int], int]
) -> None:
    out = tmp_path_factory.mktemp("manifest") / "out"
    write_manifest(items_of(sizes), out)
    manifest = TarManifest(out)
    assert manifest.sources == tuple(sorted({f"{9 - source}" for source, _ in sizes}))
    assert manifest.shard_paths() == sorted({f"{9 - shard}.tar" for _, shard in sizes})
    row = 0
    runs: list[tuple[str, str]] = []
    for source, name in enumerate(manifest.sources):
        counts = manifest.group_sizes(source)
        assert counts.min() >= 1 and counts.max() <= MAX_GROUP
        assert counts.sum() == manifest.items[source]
        for group, count in enumerate(counts):
            rows = manifest.rows(source, group, np.arange(count))
            assert rows.tolist() == list(range(row, row + count)), "groups follow each other"
            (shard,) = set(manifest.shard_of(rows).tolist())
            runs.append((name, manifest.shard(shard).path))
            row += int(count)
    assert row == len(manifest) == sum(sizes.values())
    assert runs == sorted(runs)
    for (source, shard), size in sizes.items():
        assert runs.count((f"{9 - source}", f"{9 - shard}.tar")) == -(-size // MAX_GROUP)


def test_pieces_of_a_large_group_differ_by_one_item_at_most(tmp_path: Path) -> None:
    write_manifest(items_of({(0, 0): 3 * MAX_GROUP + 1}), tmp_path / "out")
    counts = TarManifest(tmp_path / "out").group_sizes(0)
    assert len(counts) == 4 and counts.max() - counts.min() <= 1


def test_rows_keep_their_order_within_a_group(tmp_path: Path) -> None:
    items = items_of({(1, 1): 3, (0, 0): 2}).take(np.array([4, 2, 0, 3, 1]))
    write_manifest(items, tmp_path / "out")
    assert TarManifest(tmp_path / "out").ids(range(5)) == ["2", "0", "1", "4", "3"]


def test_nothing_to_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no samples"):
        write_manifest(items_of({(0, 0): 0}), tmp_path / "out")
