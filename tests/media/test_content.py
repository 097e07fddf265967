import base64
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from penstock.media.content import as_array, content, data_url
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory

DATA = b"\x89PNG and so on"


@pytest.mark.parametrize(
    "value",
    [
        DATA,
        bytearray(DATA),
        memoryview(DATA),
        io.BytesIO(DATA),
        InMemory(DATA),
        {"bytes": DATA, "path": "ignored.png"},
        {"bytes": DATA, "path": None},
        "data:image/png;base64," + base64.b64encode(DATA).decode(),
        "DATA:image/png;charset=x;BASE64," + base64.b64encode(DATA).decode().replace("I", "%49"),
        {"bytes": None, "path": "data:;base64," + base64.b64encode(DATA).decode()},
    ],
)
def test_a_file_is_found_wherever_a_record_holds_it(value: Any) -> None:
    assert content(value) == DATA


@pytest.mark.parametrize("value", ["images/1.png", Path("images/1.png"), {"bytes": None, "path": "images/1.png"}])
def test_paths_and_urls_are_opened_by_the_function_that_is_passed_in(value: Any) -> None:
    asked: list[str] = []

    def open_link(link: str) -> bytes:
        asked.append(link)
        return DATA

    assert content(value, open_link) == DATA
    assert asked == ["images/1.png"]
    with pytest.raises(BadMedia, match=r"names 'images/1.png', and paths and URLs are not opened here"):
        content(value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "type NoneType is not a file"),
        (7, "type int is not a file"),
        ("", "the path is empty"),
        ({}, "neither 'bytes' nor 'path'"),
        ({"bytes": None, "path": None}, "neither 'bytes' nor 'path', only"),
        (io.StringIO("text"), "open it in binary mode"),
        ("data:image/png;base64", "has no comma"),
        ("data:image/png;base64,abc", "not valid base64"),
        ("data:image/png;base64,a_b-", "not valid base64"),
    ],
)
def test_what_is_no_file_is_refused_with_the_reason(value: Any, sentence: str) -> None:
    with pytest.raises(BadMedia, match=sentence):
        content(value)


def test_data_urls_may_be_plain_or_contain_line_breaks() -> None:
    assert data_url("data:,a%20b") == b"a b"
    assert data_url("data:;base64,QUJD\nRA==\n") == b"ABCD"


def test_a_pickle_is_only_bytes() -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return pytest.fail, ("a pickle was executed",)

    trap = pickle.dumps(Trap())
    assert content({"bytes": trap}) == trap


def test_arrays_tensors_and_lists_are_arrays() -> None:
    assert as_array(np.arange(3)) is not None
    assert as_array([[1, 2], [3, 4]]).shape == (2, 2)
    halves = as_array(torch.tensor([0.5, 1.5], dtype=torch.bfloat16, requires_grad=True))
    assert halves.dtype == np.float32 and halves.tolist() == [0.5, 1.5]
    assert as_array(b"bytes") is None and as_array("text") is None
    with pytest.raises(BadMedia, match="rows of equal length"):
        as_array([[1, 2], [3]])
