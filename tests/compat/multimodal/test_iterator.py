"""``_get_iterator``: a subclass changes records, or leaves them out. What can't have effect is an error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from penstock.compat.multimodal import TrueStreamingDataset
from tests.compat.multimodal.made import as_it_is, lines, opened, texts


class Named(TrueStreamingDataset):
    """Adds the name of the dataset to the text."""

    def _get_iterator(self, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for record in super()._get_iterator(config):
            yield {**record, "text": f"{config['name']}: {record['text']}"}


@pytest.mark.parametrize("start", [None, "fork", "spawn"])
def test_an_iterator_of_a_subclass_changes_samples_also_in_workers(tmp_path: Path, start: str | None) -> None:
    configs = {"code": [lines(tmp_path, "a", 2), lines(tmp_path, "b", 2)]}
    dataset = opened(tmp_path, configs, kind=Named, batch_size=1, sample_repeat=1, max_per_dataset=2)
    workers: dict[str, Any] = {} if start is None else {"num_workers": 1, "multiprocessing_context": start}
    assert texts(DataLoader(dataset, batch_size=None, **workers)) == ["a: a-0", "b: b-0", "a: a-1", "b: b-1"]


def test_a_record_that_the_iterator_leaves_out_is_replaced(tmp_path: Path) -> None:
    class Even(TrueStreamingDataset):
        def _get_iterator(self, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
            return (record for record in super()._get_iterator(config) if int(record["text"][2:]) % 2 == 0)

    dataset = opened(tmp_path, {"code": [lines(tmp_path, "a", 6)]}, kind=Even, sample_repeat=1, max_per_dataset=6)
    received = texts(dataset)
    assert received[::2] == ["a-0", "a-2", "a-4"]
    assert set(received) == {"a-0", "a-2", "a-4"}


def several(records: Iterator[Any]) -> Iterator[Any]:
    for record in records:
        yield record
        yield record


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda records: iter([{"text": "own"}]), "did not use that record"),
        (lambda records: iter(sorted(records, key=str)), "asked for another record before it yielded this one"),
        (several, "yielded several for one"),
    ],
)
def test_an_iterator_that_cannot_have_effect_is_an_error(tmp_path: Path, change: Any, reason: str) -> None:
    class Own(TrueStreamingDataset):
        def _get_iterator(self, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
            return change(super()._get_iterator(config))

    dataset = opened(tmp_path, {"code": [lines(tmp_path, "a", 3)]}, kind=Own)
    with pytest.raises(TypeError, match=rf"_get_iterator\('a'\) has to yield each record of super.* {reason}"):
        next(iter(dataset))


def test_the_iterator_of_a_dataset_yields_its_records_in_file_order(tmp_path: Path) -> None:
    configs = {"code": [lines(tmp_path, "a", 2), lines(tmp_path, "b", 3_000, bad=[0, 2_000])]}
    dataset = opened(tmp_path, configs, functions={"code": as_it_is})
    expected = [f"b-{number}" for number in range(3_000) if number not in (0, 2_000)]
    assert texts(dataset._get_iterator(dataset._dataset_sources[1])) == expected
    assert texts(dataset._get_iterator(dataset._dataset_sources[0])) == ["a-0", "a-1"]
