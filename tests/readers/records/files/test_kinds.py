"""How files are cut into segments: the order of a shuffled run depends on it, and states are valid with one of them."""

import gzip
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from penstock.readers.records.files.kinds import FILE_KINDS, RecordFiles
from penstock.readers.records.files.recordfile import SEGMENTS
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore, Maker
from penstock.store.local import LocalStore
from tests.pipelines.chat_sources import KINDS, open_chat
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

    files = RecordFiles(lambda: LocalStore(folder), derive, folder / "metadata")
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


@pytest.fixture
def xml(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of file that docs/extending.md adds, as it stands there."""
    page = (Path(__file__).parents[4] / "docs" / "extending.md").read_text()
    module, line = re.findall(r"   ```python\n(.*?)   ```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(textwrap.dedent(module), names)
    for ending, opener in eval(f"{{{line.strip()}}}", names).items():
        monkeypatch.setitem(FILE_KINDS, ending, opener)


def as_xml(rows: list[dict[str, str]]) -> bytes:
    fields = "<prompt>{prompt}</prompt><completion>{completion}.</completion>"
    records = [f"<record>{fields.format(**row)}</record>" for row in rows]
    return "\n".join(["<records>", *records, "<record><prompt></record>", "</records>"]).encode()


@pytest.mark.usefixtures("xml")
def test_a_kind_of_ones_own_is_read_segment_by_segment(tmp_path: Path) -> None:
    (tmp_path / "rows.xml").write_bytes(as_xml(ROWS))
    files = RecordFiles(
        lambda: LocalStore(tmp_path), lambda _: pytest.fail("nothing is unpacked"), tmp_path / "metadata"
    )
    file = files.open("rows.xml")
    places = segments(file)
    assert len(places) == 4
    found = [record for each in places for record in file.records(each, ())]
    assert [record["prompt"] for record in found if isinstance(record, dict)] == [row["prompt"] for row in ROWS]
    assert str(found[-1]) == "not XML"
    files.close()


@pytest.mark.usefixtures("xml")
@pytest.mark.parametrize("name", ["rows.xml", "rows.xml.gz"])
def test_a_run_reads_a_kind_of_ones_own(name: str, tmp_path: Path) -> None:
    data = as_xml(ROWS[:8])
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    feed = open_chat(tmp_path, tmp_path / name, shuffle=True)
    texts = [text for step in range(2) for text in feed.batch(step)["text"]]
    assert len(texts) == 8 and all(any(row["prompt"] in text for text in texts) for row in ROWS[:8])
    assert feed.catalog.reader(0)._index.reasons == {"not XML": 1}
