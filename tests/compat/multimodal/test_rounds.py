"""The order of samples against the loop of the document, written out here."""

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.compat.multimodal import TrueStreamingDataset
from penstock.manifest.errors import ManifestError
from penstock.text.formats import modality_of
from tests.compat.multimodal.made import entry, lines, opened, texts, write

DTYPES = ("code", "conversation", "vision", "video", "voice_asr")
EPOCHS = 3


class Case(NamedTuple):
    """Records of each source (True: rejected), and the caps."""

    sources: list[tuple[str, list[bool]]]
    max_per_epoch: int
    max_per_dataset: int
    sample_repeat: int
    modality_max_values: dict[str, int] | None


def cases(*, rejected: bool) -> st.SearchStrategy[Case]:
    verdicts = st.lists(st.booleans() if rejected else st.just(False), min_size=1, max_size=6)
    usable = verdicts.filter(lambda bad: not all(bad))
    caps = st.dictionaries(st.sampled_from(["text", "image", "video", "audio"]), st.integers(1, 6))
    return st.builds(
        Case,
        st.lists(st.tuples(st.sampled_from(DTYPES), usable), min_size=1, max_size=5),
        st.integers(1, 20),
        st.integers(1, 8),
        st.integers(1, 3),
        st.none() | caps,
    )


def name_of(number: int) -> str:
    return f"source{number}"


class Document:
    """The iterator of the document, as it is written there. Samples are their texts."""

    def __init__(self, case: Case) -> None:
        self.max_per_epoch = case.max_per_epoch
        self.max_per_dataset = case.max_per_dataset
        self.sample_repeat = case.sample_repeat
        self.is_dual_training = case.modality_max_values is not None
        self.modality_max_values = case.modality_max_values or {}
        self._dataset_sources = [
            {"name": name_of(number), "dtype": dtype, "records": records_of(number, bad)}
            for number, (dtype, bad) in enumerate(case.sources)
        ]

    def _get_iterator(self, src: dict[str, Any]) -> Iterator[dict[str, Any]]:
        return iter(src["records"])

    def __iter__(self) -> Iterator[str]:
        unique_samples = 0
        dataset_counts = {src["name"]: 0 for src in self._dataset_sources}
        modality_counts = {"text": 0, "image": 0, "video": 0, "audio": 0}
        iterators = {src["name"]: self._get_iterator(src) for src in self._dataset_sources}
        while unique_samples < self.max_per_epoch:
            for src in self._dataset_sources:
                name = src["name"]
                modality = modality_of(src["dtype"])
                if dataset_counts[name] >= self.max_per_dataset:
                    continue
                if self.is_dual_training:  # noqa: SIM102  # as it is written there
                    if modality_counts[modality] >= self.modality_max_values.get(modality, float("inf")):
                        continue
                try:
                    raw_sample = next(iterators[name])
                except StopIteration:
                    iterators[name] = self._get_iterator(src)
                    raw_sample = next(iterators[name])
                dataset_counts[name] += 1
                modality_counts[modality] += 1
                unique_samples += 1
                for _ in range(self.sample_repeat):
                    yield raw_sample["text"]
                if unique_samples >= self.max_per_epoch:
                    break


class Changed(Document):
    """The same with the documented differences.

    Iterators go on over epochs, a rejected record is followed by the next one of its source, and an epoch ends when
    all sources are capped.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.iterators = {src["name"]: self._get_iterator(src) for src in self._dataset_sources}

    def _get_iterator(self, src: dict[str, Any]) -> Iterator[dict[str, Any]]:
        while True:
            yield from (record for record in src["records"] if not record["bad"])

    def epoch(self) -> list[str]:
        found: list[str] = []
        unique_samples = 0
        dataset_counts = {src["name"]: 0 for src in self._dataset_sources}
        modality_counts = {"text": 0, "image": 0, "video": 0, "audio": 0}
        while True:
            before = unique_samples
            for src in self._dataset_sources:
                name = src["name"]
                modality = modality_of(src["dtype"])
                if dataset_counts[name] >= self.max_per_dataset:
                    continue
                if self.is_dual_training:  # noqa: SIM102  # as it is written there
                    if modality_counts[modality] >= self.modality_max_values.get(modality, float("inf")):
                        continue
                dataset_counts[name] += 1
                modality_counts[modality] += 1
                unique_samples += 1
                found += [next(self.iterators[name])["text"]] * self.sample_repeat
                if unique_samples >= self.max_per_epoch:
                    return found
            if unique_samples == before:
                return found


def records_of(number: int, bad: list[bool]) -> list[dict[str, Any]]:
    return [{"text": f"{number}-{at}", "bad": is_bad} for at, is_bad in enumerate(bad)]


def dataset_of(case: Case, folder: Path, **options: Any) -> TrueStreamingDataset:
    """The dataset of a case: ``dataset_configs`` lists sources by dtype, so the case is sorted in the same way."""
    configs: dict[str, list[dict[str, Any]]] = {}
    for number, (dtype, bad) in enumerate(case.sources):
        path = write(folder / f"{name_of(number)}.jsonl", records_of(number, bad))
        configs.setdefault(dtype, []).append(entry(path))
    caps = case._asdict()
    del caps["sources"]
    return opened(folder, configs, **caps, **options)


def by_dtype(case: Case) -> Case:
    dtypes = list(dict.fromkeys(dtype for dtype, _ in case.sources))
    return case._replace(sources=sorted(case.sources, key=lambda source: dtypes.index(source[0])))


@settings(max_examples=40)
@given(cases(rejected=False))
def test_the_first_epoch_is_that_of_the_documents_loop(case: Case) -> None:
    case = by_dtype(case)
    with tempfile.TemporaryDirectory() as folder:
        dataset = dataset_of(case, Path(folder))
        found = texts(dataset)
    assert found == list(islice(Document(case), len(found)))  # the loop does not end where all sources are capped
    assert len(found) == len(dataset) == len(Changed(case).epoch())


@settings(max_examples=40)
@given(cases(rejected=True))
def test_all_epochs_are_those_of_the_loop_with_the_documented_differences(case: Case) -> None:
    case = by_dtype(case)
    expected = Changed(case)
    with tempfile.TemporaryDirectory() as folder:
        dataset = dataset_of(case, Path(folder))
        for _ in range(EPOCHS):
            assert texts(dataset) == expected.epoch()


def test_a_rejected_record_leaves_the_plan_and_the_next_one_takes_its_turn(tmp_path: Path) -> None:
    configs = {"code": [lines(tmp_path, "a", 4, bad=[0, 2]), lines(tmp_path, "b", 3)]}
    dataset = opened(tmp_path, configs, max_per_epoch=6, sample_repeat=1)
    assert texts(dataset) == ["a-1", "b-0", "a-3", "b-1", "a-1", "b-2"]
    assert dataset.rejected == {"a": {"the format function returned None": 2}, "b": {}}


def test_a_source_without_an_acceptable_record_is_an_error_with_the_reasons(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "bad": true}\n{"text": "b", "bad": true}\nno JSON\n')
    with pytest.raises(ManifestError) as error:
        next(iter(opened(tmp_path, {"code": [entry(str(path))]})))
    assert "source 'a': none of its 3 records can be used: 2 × the format function returned None, 1 × not JSON" in str(
        error.value
    )


def test_shuffled_epochs_have_the_same_rounds_and_other_records(tmp_path: Path) -> None:
    configs = {"code": [lines(tmp_path, "a", 40), lines(tmp_path, "b", 40, bad=range(0, 40, 3))]}
    caps = {"max_per_epoch": 50, "max_per_dataset": 30, "sample_repeat": 1}
    plain = texts(opened(tmp_path, configs, **caps))
    shuffled = texts(opened(tmp_path, configs, **caps, shuffle=True))
    assert [text[0] for text in shuffled] == [text[0] for text in plain]
    assert shuffled != plain
    assert texts(opened(tmp_path, configs, **caps, shuffle=True, seed=1)) != shuffled
    assert len(set(shuffled)) == 50
    assert not {f"b-{number}" for number in range(0, 40, 3)} & set(shuffled)
