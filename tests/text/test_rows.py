"""Rows: nothing lost, nothing mixed, and padding that is never trained."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.labels import NO_LABEL, Encoded
from penstock.text.rows import packed, padded, padding_free

PAD = 2


def sample(*ids: int, trained: int | None = None, weight: float | None = None) -> Encoded:
    """A sample whose last tokens are trained: all but the first, if it is not said how many."""
    input_ids = np.array(ids, dtype=np.int64)
    labels = np.full(len(ids), NO_LABEL)
    begin = len(ids) - (len(ids) - 1 if trained is None else trained)
    labels[begin:] = input_ids[begin:]
    weights = None if weight is None else np.where(labels == NO_LABEL, 0, weight).astype(np.float32)
    return Encoded(input_ids, labels, weights)


A = sample(11, 12, 13)
B = sample(21, 22, trained=1)
C = sample(31, 32, 33, 2, trained=2)  # its last token is also the padding


def lists(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields.items()}


def test_padded_to_the_longest() -> None:
    assert lists(padded([A, B, C], PAD)) == {
        "input_ids": [[11, 12, 13, 2], [21, 22, 2, 2], [31, 32, 33, 2]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]],
        "labels": [[-100, 12, 13, -100], [-100, 22, -100, -100], [-100, -100, 33, 2]],
        "label_tokens": 5,
    }


@pytest.mark.parametrize(
    ("options", "length"),
    [({"length": 6}, 6), ({"pad_to_multiple_of": 8}, 8), ({"length": 6, "pad_to_multiple_of": 4}, 8)],
)
def test_padded_to_a_length_or_a_multiple(options: dict[str, int], length: int) -> None:
    made = padded([A, C], PAD, **options)
    assert made["input_ids"].shape == (2, length) and made["attention_mask"].sum() == 7
    assert (made["labels"][:, 4:] == NO_LABEL).all() and (made["input_ids"][:, 4:] == PAD).all()


@pytest.mark.parametrize("multiple", [1, 8])
def test_rows_without_any_sample_still_go_through_a_model(multiple: int) -> None:
    nothing = sample()
    several = padded([nothing, nothing], PAD, pad_to_multiple_of=multiple)
    single = padding_free([], PAD, pad_to_multiple_of=multiple)
    for made, rows in ((several, 2), (single, 1), (padded([], PAD, pad_to_multiple_of=multiple), 0)):
        assert made["input_ids"].shape == (rows, multiple) and (made["input_ids"] == PAD).all()
        assert (made["labels"] == NO_LABEL).all() and made["label_tokens"] == 0
    assert not several["attention_mask"].any() and not single["sequence_ids"].any()


def test_padding_free_is_one_row() -> None:
    assert lists(padding_free([A, B, C])) == {
        "input_ids": [[11, 12, 13, 21, 22, 31, 32, 33, 2]],
        "labels": [[-100, 12, 13, -100, 22, -100, -100, 33, 2]],
        "position_ids": [[0, 1, 2, 0, 1, 0, 1, 2, 3]],
        "sequence_ids": [[1, 1, 1, 2, 2, 3, 3, 3, 3]],
        "cu_seqlens": [0, 3, 5, 9],
        "max_seqlen": 4,
        "label_tokens": 5,
    }


def test_padding_free_may_end_with_padding() -> None:
    made = lists(padding_free([A, B], PAD, pad_to_multiple_of=8))
    assert made["input_ids"] == [[11, 12, 13, 21, 22, 2, 2, 2]] and made["position_ids"] == [[0, 1, 2, 0, 1, 0, 1, 2]]
    assert made["sequence_ids"] == [[1, 1, 1, 2, 2, 0, 0, 0]] and made["cu_seqlens"] == [0, 3, 5, 8]


def test_packs_are_rows_of_one_length() -> None:
    assert lists(packed([[A, B], [C]], PAD, length=6)) == {
        "input_ids": [[11, 12, 13, 21, 22, 2], [31, 32, 33, 2, 2, 2]],
        "labels": [[-100, 12, 13, -100, 22, -100], [-100, -100, 33, 2, -100, -100]],
        "position_ids": [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 0, 1]],
        "sequence_ids": [[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]],
        "cu_seqlens": [0, 3, 5, 6, 10, 12],
        "max_seqlen": 4,
        "label_tokens": 5,
    }


def test_flat_packs_are_the_same_in_one_row() -> None:
    rows = packed([[A, B], [C]], PAD, length=6)
    flat = packed([[A, B], [C]], PAD, length=6, flat=True)
    assert set(rows) == set(flat)
    for name, value in rows.items():
        np.testing.assert_array_equal(np.ravel(value), np.ravel(flat[name]))
    assert flat["input_ids"].shape == (1, 12) and flat["cu_seqlens"].dtype == np.int32


samples = st.integers(1, 9).flatmap(
    lambda size: st.builds(sample, *[st.integers(0, 99)] * size, trained=st.integers(0, size))
)


@given(st.lists(st.lists(samples, max_size=4), min_size=1, max_size=4), st.booleans())
def test_every_sample_can_be_cut_out_again(packs: list[list[Encoded]], flat: bool) -> None:
    made = packed(packs, PAD, length=40, flat=flat)
    bounds = made["cu_seqlens"].tolist()
    assert bounds[0] == 0 and bounds[-1] == 40 * len(packs) == made["input_ids"].size
    assert made["max_seqlen"] == max(b - a for a, b in pairwise(bounds))
    found = []
    for start, end in pairwise(bounds):
        here = {name: made[name].ravel()[start:end] for name in ("input_ids", "labels", "position_ids", "sequence_ids")}
        assert here["position_ids"].tolist() == list(range(end - start)) and len(set(here["sequence_ids"])) == 1
        if here["sequence_ids"][0]:
            found.append((here["input_ids"].tolist(), here["labels"].tolist()))
        else:
            assert (here["labels"] == NO_LABEL).all()
    expected = [(each.input_ids.tolist(), [NO_LABEL, *each.labels.tolist()[1:]]) for pack in packs for each in pack]
    assert found == expected
    assert made["label_tokens"] == (made["labels"] != NO_LABEL).sum()


@given(st.lists(samples, min_size=1, max_size=6))
def test_all_kinds_of_rows_train_the_same_tokens(several: list[Encoded]) -> None:
    rows = [padded(several, PAD), padding_free(several), packed([several], PAD, length=99)]
    labels = [made["labels"][made["labels"] != NO_LABEL].tolist() for made in rows]
    assert labels[0] == labels[1] == labels[2]
    assert {made["label_tokens"] for made in rows} == {len(labels[0])}


@pytest.mark.parametrize("make", [lambda rows: padded(rows, PAD), lambda rows: packed([rows], PAD, length=9)])
def test_weights_of_one_sample_make_weights_of_all(make: Any) -> None:
    made = make([A, sample(21, 22, 23, weight=0.5)])
    assert made["loss_weights"].dtype == np.float32 and made["loss_weights"].shape == made["labels"].shape
    where = made["labels"] != NO_LABEL
    assert made["loss_weights"][where].tolist() == [1, 1, 0.5, 0.5] and not made["loss_weights"][~where].any()


def test_too_long_for_a_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="row 1 has 7 tokens; the rows are 6 long"):
        packed([[A, B], [A, C]], PAD, length=6)
    with pytest.raises(ValueError, match="row 0 has 4 tokens; the rows are 3 long"):
        padded([C], PAD, length=3)


def test_an_empty_pack_is_padding() -> None:
    made = packed([[]], PAD, length=4)
    assert made["cu_seqlens"].tolist() == [0, 4] and made["label_tokens"] == 0 and not made["sequence_ids"].any()
