"""A reader needs the methods of the protocol; what else it has is declared by inheriting from BaseReader."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from penstock.plan.draws import Ints
from penstock.readers import BaseReader, Reader, Uses
from penstock.readers.reader import optional_methods, require_reader


class Plain:
    def wants(self, uses: Uses) -> list[Sequence[Any]]:
        return [() for _ in uses.row]

    def resident(self, source: int, group: int) -> Sequence[Any]:
        return ()

    def locate(self, uses: Uses) -> list[Any]:
        return uses.row.tolist()

    def read(self, places: Sequence[int]) -> list[Any]:
        return list(places)

    def names(self, uses: Uses) -> list[str | list[str]]:
        return [str(row) for row in uses.row.tolist()]

    def find(self, name: str, epoch: int) -> list[int]:
        return [int(name)]

    def close(self) -> None: ...


class Undeclared(Plain):
    counted = True

    def counts(self, uses: Uses) -> Mapping[str, Ints]:
        return {"letters": uses.row}


class Declared(Undeclared, BaseReader): ...


def uses() -> Uses:
    rows = np.arange(3)
    return Uses(rows, rows, rows, rows, rows, rows.astype(np.uint64))


def test_the_methods_of_the_protocol_are_enough() -> None:
    reader: Reader[Any, Any] = Plain()
    require_reader(reader)
    assert optional_methods(reader).group_bytes(0) is None
    assert not optional_methods(reader).counted and optional_methods(reader).counts(uses()) == {}


def test_a_missing_method_is_named() -> None:
    class Partial:
        def wants(self, uses: Uses) -> list[Any]:
            return []

        def close(self) -> None: ...

    with pytest.raises(TypeError, match=r"reader Partial has no method `resident`, `locate`, `read`, `names`, `find`;"):
        require_reader(Partial())


def test_an_attribute_of_that_name_that_is_no_method_is_the_readers_own() -> None:
    reader = Plain()
    reader.counts = np.arange(3)  # type: ignore[attr-defined]
    require_reader(reader)
    assert optional_methods(reader).counts(uses()) == {}


def test_an_optional_method_has_to_be_declared() -> None:
    with pytest.raises(TypeError, match=r"Undeclared has the optional method `counts`.* inherit from it"):
        require_reader(Undeclared())
    reader = Declared()
    require_reader(reader)
    assert optional_methods(reader) is reader and optional_methods(reader).counted
    assert optional_methods(reader).counts(uses())["letters"].tolist() == [0, 1, 2]
