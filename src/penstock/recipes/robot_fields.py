"""The fields of batches of several robot datasets, and whether they can be stacked. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.config import ConfigError, nearest
from penstock.readers.lerobot.info import INDEX_COLUMNS
from penstock.readers.lerobot.moment import Field

Fields = Mapping[str, Field]

_TAKEN = ("task", "dataset_index", "ids", "sources", "rows", "bad", "valid", "slots", "step")  # of every batch


@dataclass(frozen=True)
class Stacked:
    """The fields of a batch.

    Attributes:
        fields: Fields by key.
        incomplete: Keys that some dataset lacks; its rows are zeros and marked.
    """

    fields: Fields
    incomplete: tuple[str, ...]


def stacked_fields(
    datasets: Mapping[str, Fields],
    *,
    keys: Sequence[str] | None,
    deltas: Sequence[str],
    resize: tuple[int, int] | None,
) -> Stacked:
    """Return the fields of a batch.

    Args:
        datasets: Fields by source name.
        keys: Features of a batch; None for those that all sources have.
        deltas: Keys of features with a window.
        resize: Height and width of camera frames; None keeps their size.

    Raises:
        ConfigError: If a key does not exist, has the name of another field of batches, has a window but is in no batch,
            or if values of different shapes would have to be stacked.
    """
    known = list(dict.fromkeys(key for fields in datasets.values() for key in fields))
    for where, named in (("keys", keys or ()), ("delta_timestamps", deltas)):
        for key in named:
            if key not in known:
                near = nearest(key, known) or f"; there are {', '.join(known)}"
                raise ConfigError(f"robot.{where}: no source has a feature {key!r}{near}")
    complete = [key for key in known if all(key in fields for fields in datasets.values())]
    chosen = complete if keys is None else [key for key in known if key in keys or key in INDEX_COLUMNS]
    found = {key: _same(key, datasets, resize) for key in chosen}
    stacked = Stacked(found, tuple(key for key in chosen if key not in complete))
    _check_names(stacked)
    for key in deltas:
        if key not in found:
            without = [name for name, fields in datasets.items() if key not in fields]
            why = f"{without[0]} has no such feature" if keys is None else "it is not one of robot.keys"
            raise ConfigError(f"robot.delta_timestamps: batches would have no {key!r}: {why}; name it in robot.keys")
    return stacked


def _check_names(stacked: Stacked) -> None:
    """Raise if a feature has the name of another field of batches."""
    marks = {f"{key}_is_pad" for key, field in stacked.fields.items() if field.frames is not None}
    marks |= {f"{key}_is_missing" for key in stacked.incomplete}
    for key in stacked.fields:
        if key in marks or key in _TAKEN:
            raise ConfigError(f"robot: a feature is named {key!r}, as another field of batches; rename it")


def _same(key: str, datasets: Mapping[str, Fields], resize: tuple[int, int] | None) -> Field:
    """Return a field that all sources which have it agree on."""
    own = {name: _resized(fields[key], resize) for name, fields in datasets.items() if key in fields}
    (first, field), *others = own.items()
    for name, other in others:
        if other != field:
            sizes_differ = field.is_camera and field._replace(shape=other.shape) == other
            advice = (
                "; set robot.resize" if sizes_differ and resize is None else "; rename one of them, or name other keys"
            )
            differ = f"{key!r} is {_words(field)} in {first} and {_words(other)} in {name}"
            raise ConfigError(f"robot: {differ}: they can't be stacked{advice}")
    return field


def _resized(field: Field, resize: tuple[int, int] | None) -> Field:
    if resize is None or not field.is_camera:
        return field
    return field._replace(shape=(*resize, field.shape[2]))


def _words(field: Field) -> str:
    return f"{field.kind} {list(field.shape)}"
