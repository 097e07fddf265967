"""Records that are held out are always the same ones, and about as many as was asked for."""

import pytest

from penstock.media.span import InMemory
from penstock.text.holdout import Holdout

RECORDS = [{"messages": [{"role": "user", "content": f"Question {n}"}], "image": b"\x00"} for n in range(2_000)]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_each_record_is_on_one_side_and_the_share_is_about_right(share: float) -> None:
    training = [Holdout(share).takes(record) for record in RECORDS]
    evaluation = [Holdout(share, held_out=True).takes(record) for record in RECORDS]
    assert all(one != other for one, other in zip(training, evaluation, strict=True))
    assert sum(evaluation) == pytest.approx(share * len(RECORDS), rel=0.5)


def test_a_larger_share_holds_out_all_of_a_smaller_one() -> None:
    small, large = (Holdout(share, held_out=True) for share in (0.05, 0.2))
    assert all(large.takes(record) for record in RECORDS if small.takes(record))


def test_an_id_decides_where_there_is_one_and_else_all_but_media() -> None:
    half = Holdout(0.5)
    for number, record in enumerate(RECORDS[:100]):
        named = {**record, "id": number}
        assert half.takes(named) == half.takes({"id": number})
        assert half.takes(record, ["image"]) == half.takes({**record, "image": "other"}, ["image"])
    sides = {half.takes({**RECORDS[0], "id": number}) for number in range(50)}
    assert sides == {True, False}


def test_bytes_that_are_not_read_decide_nothing() -> None:
    for number in range(100):
        record = {"n": number, "jpg": {"bytes": None, "path": "a.jpg"}}
        unread = {"n": number, "jpg": {"bytes": InMemory(b"x"), "path": "a.jpg"}}
        assert Holdout(0.5).takes(record) == Holdout(0.5).takes(unread)


def test_the_choice_is_a_promise() -> None:
    chosen = [number for number in range(40) if not Holdout(0.1).takes({"id": f"record-{number}"})]
    assert chosen == [26, 31]
