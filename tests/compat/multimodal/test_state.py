"""States: saved at every yield, as the JSON of the document, and resumed with any number of workers."""

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from penstock import StateError
from penstock.compat.multimodal import TrueStreamingDataset
from tests.compat.multimodal.made import MEDIA, entry, lines, opened, texts, write
from tests.compat.multimodal.test_rounds import Case, by_dtype, cases, dataset_of

pytestmark = pytest.mark.long

CAPS: dict[str, Any] = {
    "max_per_epoch": 7,
    "max_per_dataset": 3,
    "sample_repeat": 2,
    "modality_max_values": {"image": 1, "video": 5},
}
FIRST_EPOCH = [text for text in ("a-0", "b-0", "c-1", "a-2", "b-1", "a-3", "b-0") for _ in range(2)]
EPOCH = len(FIRST_EPOCH)
EPOCHS = 3


def configs(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        "code": [lines(folder, "a", 5, bad=[1]), lines(folder, "b", 2)],
        "vision": [lines(folder, "c", 4, bad=[0, 3])],
    }


def make(folder: Path, **options: Any) -> TrueStreamingDataset:
    return opened(folder, configs(folder), **{**CAPS, **options})


def run(dataset: TrueStreamingDataset) -> Iterator[str]:
    """The texts of one ``for`` after the other."""
    while True:
        yield from texts(dataset)


def stopped(dataset: TrueStreamingDataset, yields: int) -> list[str]:
    """Receive some samples, ``for`` after ``for``, and stop in the middle of one or at its end."""
    received: list[str] = []
    while len(received) < yields:
        for sample in dataset:
            received.append(sample["text"])
            if len(received) == yields:
                break
    return received


@pytest.fixture
def expected(tmp_path: Path) -> list[str]:
    """The uninterrupted run."""
    return list(islice(run(make(tmp_path)), EPOCHS * EPOCH))


def loaded(dataset: TrueStreamingDataset, workers: int, batch_size: int = 2) -> list[str]:
    """The texts of one ``for`` over a ``DataLoader``."""
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, collate_fn=texts)
    return [text for batch in loader for text in batch]


def test_a_run_goes_on_after_every_yield_as_if_it_had_not_stopped(tmp_path: Path, expected: list[str]) -> None:
    assert expected[:EPOCH] == FIRST_EPOCH
    path = tmp_path / "state.json"
    for yields in range(2 * EPOCH + 1):
        first = make(tmp_path)
        assert stopped(first, yields) == expected[:yields]
        first._save_streaming_state(path)
        if yields % 2:
            shutil.rmtree(tmp_path / "cache")  # with the index
        resumed = make(tmp_path, resume_state_path=str(path))
        epochs = [texts(resumed) for _ in range(EPOCHS - yields // EPOCH)]
        assert [text for epoch in epochs for text in epoch] == expected[yields:]
        assert len(epochs[0]) == EPOCH - yields % EPOCH  # it finishes the epoch of the state


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_go_on_after_every_yield_in_the_same_order(tmp_path: Path, expected: list[str], workers: int) -> None:
    path = tmp_path / "state.json"
    for yields in range(EPOCH):
        first = make(tmp_path)
        stopped(first, yields)
        first._save_streaming_state(path)
        if yields % 2:
            shutil.rmtree(tmp_path / "cache")
        resumed = make(tmp_path, resume_state_path=str(path), batch_size=2)
        assert loaded(resumed, workers) == expected[yields:EPOCH]
        if yields % 5 == 4:
            assert loaded(resumed, workers) == expected[EPOCH : 2 * EPOCH]


def test_workers_that_know_no_batch_size_share_what_is_left(tmp_path: Path, expected: list[str]) -> None:
    path = tmp_path / "state.json"
    first = make(tmp_path)
    stopped(first, 5)
    first._save_streaming_state(path)
    resumed = make(tmp_path, resume_state_path=str(path))
    assert sorted(loaded(resumed, 2)) == sorted(expected[5:EPOCH])
    assert sorted(loaded(resumed, 2)) == sorted(expected[EPOCH : 2 * EPOCH])


@settings(max_examples=10)
@given(cases(rejected=True), st.integers(0, 20), st.booleans())
def test_any_run_goes_on_after_any_yield(case: Case, yields: int, shuffle: bool) -> None:
    case = by_dtype(case)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = list(islice(run(dataset_of(case, folder, shuffle=shuffle)), yields + 12))
        first = dataset_of(case, folder, shuffle=shuffle)
        stopped(first, yields)
        first._save_streaming_state(folder / "state.json")
        resumed = dataset_of(case, folder, shuffle=shuffle, resume_state_path=str(folder / "state.json"))
        assert list(islice(run(resumed), 12)) == whole[yields:]


def test_a_state_has_the_keys_of_the_document_and_counts_what_was_handed_out(tmp_path: Path) -> None:
    dataset = make(tmp_path)
    path = tmp_path / "state.json"
    nothing = {"text": 0, "image": 0, "video": 0, "audio": 0}

    def saved() -> dict[str, Any]:
        dataset._save_streaming_state(path)
        state: dict[str, Any] = json.loads(path.read_text())
        assert list(state)[:5] == ["epoch", "unique_samples", "total_yields", "dataset_positions", "modality_counts"]
        assert list(state)[5:] == ["penstock"]
        assert state == dataset._streaming_state
        return {key: state[key] for key in list(state)[:5]}

    assert saved() == {
        "epoch": 0,
        "unique_samples": 0,
        "total_yields": 0,
        "dataset_positions": {"a": 0, "b": 0, "c": 0},
        "modality_counts": nothing,
    }
    stopped(dataset, 5)  # a a b b c
    assert saved() == {
        "epoch": 0,
        "unique_samples": 3,
        "total_yields": 5,
        "dataset_positions": {"a": 1, "b": 1, "c": 1},
        "modality_counts": {**nothing, "text": 2, "image": 1},
    }
    stopped(dataset, EPOCH)  # the next `for` is the next epoch
    assert saved() == {
        "epoch": 2,  # a state at the end of an epoch is one at the beginning of the next
        "unique_samples": 0,
        "total_yields": 0,
        "dataset_positions": {"a": 6, "b": 6, "c": 2},
        "modality_counts": nothing,
    }


def test_the_last_sample_of_an_epoch_and_its_end_are_the_same_place(tmp_path: Path) -> None:
    dataset = make(tmp_path)
    states = []
    for sample in dataset:
        del sample
        states.append(dataset._streaming_state)
    assert dataset._streaming_state == states[-1]
    assert states[-1]["epoch"] == 1


def test_no_file_yet_is_a_fresh_start(tmp_path: Path, expected: list[str]) -> None:
    assert texts(make(tmp_path, resume_state_path=str(tmp_path / "none.json"))) == expected[:EPOCH]


def test_a_state_may_be_loaded_in_the_middle_of_a_run(tmp_path: Path, expected: list[str]) -> None:
    dataset = make(tmp_path)
    stopped(dataset, 3)
    dataset._save_streaming_state(tmp_path / "state.json")
    stopped(dataset, 2 * EPOCH)
    dataset._load_streaming_state(tmp_path / "state.json")
    assert texts(dataset) == expected[3:EPOCH]


OLD = {
    "epoch": 1,
    "unique_samples": 5,
    "total_yields": 10,
    "dataset_positions": {"a": 2, "c": 1},
    "modality_counts": {"text": 4, "image": 1},
}


def test_a_state_of_the_old_class_goes_on_at_its_positions(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(OLD))
    with pytest.warns(UserWarning, match="a state of the old class"):
        dataset = make(tmp_path, resume_state_path=str(path))
    assert dataset._streaming_state["dataset_positions"] == {"a": 2, "b": 0, "c": 1}
    once = [text for text in ("a-3", "b-0", "c-2", "a-4", "b-1", "a-0", "b-0") for _ in range(2)]
    with pytest.warns(UserWarning, match="a state of the old class"):
        assert loaded(make(tmp_path, resume_state_path=str(path), batch_size=2), 2) == once
    assert stopped(dataset, 9) == once[:9]
    assert dataset._streaming_state["epoch"] == 1
    dataset._save_streaming_state(path)
    again = make(tmp_path, resume_state_path=str(path))  # now it is a state of ours: exact, and without a warning
    assert again._streaming_state["dataset_positions"] == {"a": 4, "b": 2, "c": 2}
    assert texts(again) == once[9:]
    assert texts(again)[:6:2] == ["a-2", "b-1", "c-1"]


def test_ids_name_the_records_that_are_read_where_a_dataset_begins_later(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(OLD))
    with pytest.warns(UserWarning, match="a state of the old class"):
        feed = make(tmp_path, resume_state_path=str(path)).feed
    for step in range(EPOCH):
        batch = feed.batch(step)
        named = [f"{source}-{id}" for source, id in zip(batch["sources"], batch["ids"], strict=True)]
        assert named == [sample["text"] for sample in batch["samples"]]
    first = [(name, use.step) for name, use in feed.where("a.jsonl:3")]
    assert first == [("a.jsonl:3", 4)] * 2 and feed.batch(4)["ids"][:2] == ["3", "3"]


def test_an_old_state_has_no_place_in_a_shuffled_run(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(OLD))
    with pytest.raises(StateError, match="goes on in file order"):
        make(tmp_path, shuffle=True, resume_state_path=str(path))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_per_epoch": 6}, "max_per_epoch, max_per_dataset, modality_max_values"),
        ({"sample_repeat": 1}, "sample_repeat or shuffle"),
        ({"seed": 3}, "the seed"),
        ({"functions": {"code": lambda sample, _: sample, "vision": lambda sample, _: sample}}, "functions of a, b, c"),
    ],
)
def test_a_state_of_another_run_is_refused_and_says_what_differs(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    path = tmp_path / "state.json"
    dataset = make(tmp_path)
    stopped(dataset, 3)
    dataset._save_streaming_state(path)
    with pytest.raises(StateError, match=named):
        make(tmp_path, resume_state_path=str(path), **options)
    state = json.loads(path.read_text())
    del state["penstock"]  # as the message says
    path.write_text(json.dumps(state))
    with pytest.warns(UserWarning, match="a state of the old class"):
        make(tmp_path, resume_state_path=str(path), **options)


@pytest.mark.parametrize("content", ["no JSON", "[]", "{}", '{"dataset_positions": {"a": "x"}}', '{"penstock": {}}'])
def test_what_is_no_state_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)
    with pytest.raises(StateError, match="not"):
        make(tmp_path, resume_state_path=str(path))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"total_yields": 7}, "unique_samples does not follow"),
        ({"unique_samples": 2}, "unique_samples does not follow"),
        ({"dataset_positions": {"a": 2, "b": 1, "c": 1}}, "dataset_positions does not follow"),
        ({"modality_counts": {}}, "modality_counts does not follow"),
        ({"total_yields": EPOCH}, f"total_yields is {EPOCH}, and an epoch has {EPOCH}"),
        ({"total_yields": 5.5}, "total_yields is 5.5; expected a non-negative integer"),
        ({"epoch": True}, "epoch is True; expected a non-negative integer"),
        ({"epoch": "0"}, "epoch is '0'; expected a non-negative integer"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    path = tmp_path / "state.json"
    dataset = make(tmp_path)
    stopped(dataset, 5)
    path.write_text(json.dumps({**dataset._streaming_state, **changed}))
    with pytest.raises(StateError, match=said):
        make(tmp_path, resume_state_path=str(path))


def test_a_state_that_cannot_know_what_the_loop_received_is_refused(tmp_path: Path) -> None:
    dataset = make(tmp_path)
    loader = DataLoader(dataset, batch_size=2, num_workers=2, collate_fn=texts)
    next(iter(loader))
    with pytest.raises(StateError, match="workers of a DataLoader make samples ahead"):
        dataset._save_streaming_state(tmp_path / "state.json")
    with pytest.raises(StateError, match="give batch_size to the dataset"):
        dataset._save_streaming_state(tmp_path / "state.json", batches=1)
    assert not (tmp_path / "state.json").exists()
    assert len(texts(dataset)) == EPOCH  # without workers it is known again
    assert dataset._streaming_state["epoch"] == 2


def test_with_workers_the_loop_says_how_many_batches_it_received(tmp_path: Path, expected: list[str]) -> None:
    path = tmp_path / "state.json"
    for skipped in (0, 3):
        dataset = make(tmp_path, batch_size=4)
        dataset.resume_at(skipped)
        received: list[str] = []
        loader = DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=texts)
        for number, batch in enumerate(loader, 1):
            received += batch
            dataset._save_streaming_state(path, batches=number)
            rest = texts(make(tmp_path, resume_state_path=str(path)))
            at = skipped + len(received)
            assert rest == (expected[at:EPOCH] or expected[EPOCH : 2 * EPOCH])
        with pytest.raises(StateError, match="the latest `for` has"):
            dataset._save_streaming_state(path, batches=number + 1)
        iterator = iter(loader)  # its workers may not have begun
        with pytest.raises(StateError, match="batches=0 does not say which `for` is meant"):
            dataset._save_streaming_state(path, batches=0)
        del iterator


def test_ranks_save_the_same_state_between_two_batches(tmp_path: Path, expected: list[str]) -> None:
    ranks = [make(tmp_path, batch_size=3, rank=rank, world_size=2) for rank in range(2)]
    iterators = [iter(dataset) for dataset in ranks]
    received = [[next(each)["text"] for _ in range(3)] for each in iterators]
    assert received[0] + received[1] == expected[:6]
    states = [dataset._streaming_state for dataset in ranks]
    assert states[0] == states[1]
    assert states[0]["total_yields"] == 6
    next(iterators[0])
    with pytest.raises(StateError, match="between two batches only"):
        ranks[0]._save_streaming_state(tmp_path / "state.json")
    path = tmp_path / "state.json"
    path.write_text(json.dumps(states[0]))
    alone = make(tmp_path, resume_state_path=str(path))
    assert texts(alone) == expected[6:EPOCH]
    both = [make(tmp_path, batch_size=1, rank=rank, world_size=2, resume_state_path=str(path)) for rank in range(2)]
    shares = [texts(dataset) for dataset in both]
    assert [text for pair in zip(*shares, strict=True) for text in pair] == expected[6:EPOCH]


class Random(TrueStreamingDataset):
    """Draws random numbers in a hook."""

    def _tokenize(self, sample: dict[str, Any]) -> dict[str, Any]:
        drawn = [random.random(), float(np.random.rand()), torch.rand(1).item()]
        return {**super()._tokenize(sample), "drawn": drawn}


def test_samples_after_a_resume_are_equal_with_media_bad_media_and_random_numbers(tmp_path: Path) -> None:
    images = [str(MEDIA / "1.jpg"), "none.jpg", str(MEDIA / "2.jpg"), str(MEDIA / "3.jpg")]
    photos = [{"text": f"photo {number}", "image": image} for number, image in enumerate(images)]
    sounds = [{"text": f"sound {name}", "audio": str(MEDIA / name)} for name in ("2.wav", "4.mp3")]
    configs = {
        "vision": [entry(write(tmp_path / "photos.jsonl", photos))],
        "voice_asr": [entry(write(tmp_path / "sounds.jsonl", sounds))],
    }

    def make(**options: Any) -> TrueStreamingDataset:
        sizes = {"image_size": 8, "audio_max_length": 10}
        return opened(tmp_path, configs, kind=Random, max_per_epoch=5, **sizes, **options)

    def seen(sample: dict[str, Any]) -> str:
        return repr({key: value.tolist() if torch.is_tensor(value) else value for key, value in sample.items()})

    whole = make()
    expected = [seen(sample) for _ in range(2) for sample in whole]
    assert expected[0] == expected[1]  # a repeat
    assert len(set(expected)) == 9  # 10 records, of which a bad one is replaced by the next
    for yields in (0, 1, 4, 7, 10, 13):
        first = make()
        stopped(first, yields)
        first._save_streaming_state(tmp_path / "state.json")
        rest = make(resume_state_path=str(tmp_path / "state.json"))
        assert [seen(sample) for _ in range(2 - yields // 10) for sample in rest] == expected[yields:]
