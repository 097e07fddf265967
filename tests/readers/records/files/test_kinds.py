"""How files are cut into segments: the order of a shuffled run depends on it, and states are valid with one of them."""

from pathlib import Path

import pytest

from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.files.recordfile import SEGMENTS
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore, Maker
from penstock.store.local import LocalStore
from tests.pipelines.chat_sources import KINDS
from tests.readers.records.files.reading import segments

ROWS = [{"prompt": f"What is {number}?", "completion": "words " * (number % 400)} for number in range(12_000)]
COUNTS = {
    "rows.jsonl": [929, 1698, 3322, 6051],
    "rows.json": [918, 1691, 3314, 6077],
    "lines.json": [929, 1698, 3322, 6051],
    "rows.csv": [960, 1717, 3463, 5860],
    "rows.tsv": [960, 1717, 3463, 5860],
    "rows.jsonl.gz": [929, 1698, 3322, 6051],
    "rows.json.zst": [927, 1697, 3321, 6055],
    "rows.csv.gz": [960, 1717, 3463, 5860],
    "rows.parquet": [1029] * 11 + [681],
    "rows.arrow": [785, 780, 1555, 3080, 3260, 2540],
    "stream.arrow": [785, 780, 1555, 3080, 3260, 2540],
    "rows.tar": [580, 996, 2108, 4176, 4140],
}


def counts(name: str, folder: Path) -> list[int]:
    (folder / name).write_bytes(KINDS[name](ROWS))
    cache = NodeCache(folder / "cache", 1 << 30)

    def derive(maker: Maker) -> DerivedStore:
        return DerivedStore(LocalStore(folder), maker, cache)

    files = RecordFiles(lambda: LocalStore(folder), derive, folder / "shelf")
    file = files.open(name)
    found = [len(places) for places in segments(file)]
    files.close()
    cache.close()
    return found


@pytest.mark.parametrize("name", KINDS)
def test_files_are_cut_as_the_version_in_fingerprints_says(name: str, tmp_path: Path) -> None:
    found = counts(name, tmp_path)
    assert sum(found) == len(ROWS)
    assert (found, SEGMENTS) == (COUNTS[name], 1), "raise SEGMENTS: states of another cut are no longer valid"
