from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.readers.window import Window
from penstock.store.local import LocalStore

DATA = bytes(number * 7 % 251 for number in range(1000))
RANGE = st.tuples(st.integers(0, 1000), st.integers(0, 1000)).map(lambda ends: (min(ends), max(ends) - min(ends)))


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 1500), st.lists(st.tuples(st.sampled_from(["view", "pieces", "peek"]), RANGE), max_size=10))
def test_whatever_the_span_and_the_order_the_bytes_are_the_blobs(
    tmp_path_factory: pytest.TempPathFactory, span: int, calls: list[tuple[str, tuple[int, int]]]
) -> None:
    folder: Path = tmp_path_factory.getbasetemp() / "window"
    folder.mkdir(exist_ok=True)
    (folder / "data").write_bytes(DATA)
    blob = LocalStore(folder).open("data")
    window = Window(blob, span)
    for how, (offset, size) in calls:
        if how == "view":
            got = bytes(window.view(offset, size))
        elif how == "peek":
            got = window.peek(offset, size)
        else:
            pieces = [bytes(piece) for piece in window.pieces(offset, size)]
            got = b"".join(pieces)
        assert got == DATA[offset : offset + size]
    blob.close()
