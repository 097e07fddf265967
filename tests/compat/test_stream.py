"""Which worker makes which batch: against a DataLoader in miniature."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.compat.stream import batch_count, share


def taken(samples: Sequence[Sequence[int]], batch_size: int) -> list[list[int]]:
    """The batches that a DataLoader takes of its workers: one of each in turn, while they have some."""
    queues = [[list(own[at : at + batch_size]) for at in range(0, len(own), batch_size)] for own in samples]
    batches = []
    while any(queues):
        batches += [queue.pop(0) for queue in queues if queue]
    return batches


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(1, 5), st.data())
def test_workers_that_start_in_the_middle_give_the_rest_in_the_same_order(
    lengths: list[int], batch_size: int, data: st.DataObject
) -> None:
    samples = [[100 * worker + at for at in range(length)] for worker, length in enumerate(lengths)]
    whole = taken(samples, batch_size)
    assert len(whole) == batch_count(lengths, batch_size)
    batches = data.draw(st.integers(0, len(whole)))
    shares = [share(worker, lengths, batches, batch_size) for worker in range(len(lengths))]
    assert sorted(each.role for each in shares) == list(range(len(lengths)))
    rest = [samples[each.role][each.skip :] for each in shares]
    assert taken(rest, batch_size) == whole[batches:]
