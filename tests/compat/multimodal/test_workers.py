"""With the workers of a ``DataLoader``: no sample repeats, and with a batch size the order is that of no workers."""

from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from penstock.compat.multimodal import TrueStreamingDataset
from tests.compat.multimodal.made import as_it_is, lines, opened, texts

CAPS: dict[str, Any] = {"max_per_epoch": 23, "max_per_dataset": 9, "sample_repeat": 1}


@pytest.fixture
def configs(tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        "code": [lines(tmp_path, "a", 40, bad=range(0, 40, 7)), lines(tmp_path, "b", 30)],
        "vision": [lines(tmp_path, "c", 30)],
    }


def loader(dataset: TrueStreamingDataset, workers: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, num_workers=workers, collate_fn=texts, **options)


@pytest.mark.parametrize("workers", [2, 3])
def test_without_a_batch_size_no_sample_repeats_and_none_is_missing(tmp_path: Path, configs: Any, workers: int) -> None:
    end = "."
    functions = dict.fromkeys(configs, lambda sample, _: None if sample["bad"] else {"text": sample["text"] + end})
    alone = opened(tmp_path, configs, functions=functions, **CAPS)
    expected = [texts(alone), texts(alone)]
    shared = loader(opened(tmp_path, configs, functions=functions, **CAPS), workers)
    for epoch in expected:
        received = [text for batch in shared for text in batch]
        assert sorted(received) == sorted(epoch)
        assert len(set(received)) == len(epoch)


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, True), (3, False)])
def test_with_a_batch_size_the_order_is_that_of_no_workers(
    tmp_path: Path, configs: Any, workers: int, persistent: bool
) -> None:
    caps = {**CAPS, "sample_repeat": 2}
    alone = opened(tmp_path, configs, **caps)
    expected = [texts(alone) for _ in range(3)]
    shared = loader(opened(tmp_path, configs, batch_size=4, **caps), workers, persistent_workers=persistent)
    assert [[text for batch in shared for text in batch] for _ in expected] == expected


def test_workers_that_are_spawned_get_functions_of_modules(tmp_path: Path, configs: Any) -> None:
    dataset = opened(tmp_path, configs, functions=dict.fromkeys(configs, as_it_is), batch_size=4, **CAPS)
    expected = texts(opened(tmp_path, configs, **CAPS))
    spawned = loader(dataset, 1, multiprocessing_context="spawn")
    assert [text for batch in spawned for text in batch] == expected
    assert len(dataset) == len(expected)


def test_a_function_that_cannot_be_sent_to_a_spawned_worker_is_named(tmp_path: Path, configs: Any) -> None:
    dataset = opened(tmp_path, configs, functions=dict.fromkeys(configs, lambda sample, _: dict(sample)), **CAPS)
    with pytest.raises(
        TypeError, match=r"format_functions\['code'\] can't be sent to a worker process that is spawned"
    ):
        next(iter(loader(dataset, 1, multiprocessing_context="spawn")))
