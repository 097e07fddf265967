"""Values of keys as they are written: sizes, durations, paths, weights. Knows no section."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from penstock.config.errors import shown

_NUMBER = r"\d+(?:\.\d*)?|\.\d+"
_UNITS = {"B": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("KMGTP", start=1)
    for suffix, base in (("B", 1000), ("iB", 1024))
}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


def size_in_bytes(value: object) -> object:
    """Convert a text such as ``500GB`` to bytes. Other types are returned unchanged.

    Raises:
        ValueError: If the text is not a size.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([a-zA-Z]+)\s*", value)
    units = {unit.lower(): factor for unit, factor in _UNITS.items()}
    if not match or match[2].lower() not in units:
        raise ValueError(f"{value!r} is not a size; write it as 500GB (10^9 bytes) or 500GiB (2^30 bytes)")
    return int(float(match[1]) * units[match[2].lower()])


def duration(value: object) -> object:
    """Convert a text such as ``6s`` or ``500ms`` to seconds. Other types are returned unchanged.

    Raises:
        ValueError: If the text is not a duration.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(ms|s|min|h)\s*", value)
    if not match:
        raise ValueError(f"{value!r} is not a duration; write it as 6s, 500ms, 2min or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _weights(value: object) -> object:
    if isinstance(value, dict):
        for name, weight in value.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
                raise ValueError(f"the weight of {name} must be a number, 0 or more, not {shown(weight)}")
        return {str(name): weight for name, weight in value.items()}
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"{shown(value)} is neither the name of an amount, such as hours or items, nor {{name: weight}}"
        )
    return value


def _pool(value: object) -> object:
    if value == "auto" or _is_count(value):
        return value
    if isinstance(value, dict):
        if "total" in value and value.keys() <= {"total", "each"} and all(map(_is_count, value.values())):
            return value
        raise ValueError(f"{shown(value)} is not {{total: number of groups over all sources}}, 1 or more")
    raise ValueError(f"{shown(value)} is neither auto nor a number of groups, 1 or more, nor {{total: number}}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _anchored(path: Path, info: ValidationInfo) -> Path:
    return folder_of(info) / path.expanduser()


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _anchored_store(store: str, info: ValidationInfo) -> str:
    return store if "://" in store else str(folder_of(info) / Path(store).expanduser())


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder of the config, which relative paths are relative to."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder.absolute()  # workers open the same files even if the process changes its working directory


def _item_names(value: object, info: ValidationInfo) -> tuple[str, ...]:
    if isinstance(value, str):
        path = folder_of(info) / Path(value).expanduser()
        try:
            value = [line for line in path.read_text().splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"can't read {path}, a text file with one name per line: {error}") from None
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("expected a list of names, or a text file with one name per line")
    for name in value:
        if not isinstance(name, str):  # YAML reads 12:5 as the number 725
            raise ValueError(f"the name {shown(name)} is not a text; write it in quotes")
    return tuple(value)


def expects(what: str) -> WrapValidator:
    """Return a validator that says in one line what a key takes, for types joined by ``|``.

    Args:
        what: What the key takes, such as ``auto or a number``.
    """

    def check(value: object, validate: ValidatorFunctionWrapHandler) -> object:
        try:
            return validate(value)
        except ValidationError:
            raise ValueError(f"expected {what}, not {shown(value)}") from None

    return WrapValidator(check)


Size = Annotated[int, BeforeValidator(size_in_bytes), Field(gt=0)]
"""A number of bytes, or a text such as ``500GB``."""
AnchoredPath = Annotated[Path, AfterValidator(_anchored)]
"""A path that is relative to the config's folder."""
StoreUrl = Annotated[str, BeforeValidator(_as_text), AfterValidator(_anchored_store)]
"""A URL, or a folder that is relative to the config's folder."""
Weights = Annotated[str | dict[str, float] | None, PlainValidator(_weights)]
"""The name of an amount, or a weight per source."""
Pool = Annotated[Literal["auto"] | int | dict[str, int], PlainValidator(_pool)]
"""A number of groups per source, or ``total`` over all sources and, if given, at most ``each`` per source."""
ItemNames = Annotated[tuple[str, ...], PlainValidator(_item_names)]
"""A list of names, or a text file with one name per line."""
