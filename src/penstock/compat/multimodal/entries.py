"""``dataset_configs`` -> the sources of a run. Opens nothing."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.config import ConfigError

_HANDED_ON = ("config", "split", "revision", "remote", "filter_images")
_WITHOUT_EFFECT = ("streaming", "format")  # all sources are streamed, and files say themselves how they are written
_KNOWN = ("name", "path", "local", *_HANDED_ON, *_WITHOUT_EFFECT)


def make_sources(dataset_configs: Mapping[str, Sequence[Mapping[str, Any]] | None]) -> list[dict[str, Any]]:
    """Return the entries of ``sources``, in order.

    A name that stands under two dtypes is two sources; the dtype is then added to both names.

    Args:
        dataset_configs: Entries by dtype. Keys of an entry: ``name``; ``path``, a file with ``local: True``, else a
            dataset; ``config``, ``split``, ``revision``, ``remote``; ``filter_images``, to drop records without one.

    Raises:
        ConfigError: One line per problem.
    """
    if not isinstance(dataset_configs, Mapping):
        raise ConfigError(f"dataset_configs: must be a dict of lists by dtype, not a {type(dataset_configs).__name__}")
    for dtype, entries in dataset_configs.items():
        if isinstance(entries, str | Mapping):
            raise ConfigError(f"dataset_configs[{dtype!r}]: must be a list of entries, not a {type(entries).__name__}")
    found = [(dtype, entry) for dtype, entries in dataset_configs.items() for entry in entries or ()]
    problems = [problem for dtype, entry in found for problem in _problems(dtype, entry)]
    if not found:
        problems = ["dataset_configs: has no dataset"]
    if problems:
        raise ConfigError("\n".join(problems))
    _warn_of_unknown_keys(found)
    names = Counter(_name(entry) for _, entry in found)
    return [_source(dtype, entry, is_shared=names[_name(entry)] > 1) for dtype, entry in found]


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or entry["path"])


def _problems(dtype: str, entry: object) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield f"dataset_configs[{dtype!r}]: an entry must be a dict with `path`, not {entry!r}"
        return
    path = entry.get("path")
    if not path:
        yield f"dataset_configs[{dtype!r}]: {entry.get('name') or dict(entry)} has no `path`"
    elif entry.get("local") and not os.path.isfile(path):
        yield f"dataset_configs[{dtype!r}]: {_name(entry)}: there is no file {os.path.abspath(path)}"


def _warn_of_unknown_keys(found: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    unknown = sorted({str(key) for _, entry in found for key in entry if key not in _KNOWN})
    if unknown:
        warnings.warn(
            f"dataset_configs: {', '.join(unknown)} without effect; entries have {', '.join(_KNOWN)}",
            UserWarning,
            stacklevel=4,
        )


def _source(dtype: str, entry: Mapping[str, Any], *, is_shared: bool) -> dict[str, Any]:
    name = f"{_name(entry)}:{dtype}" if is_shared else _name(entry)
    given = {key: entry[key] for key in _HANDED_ON if entry.get(key) is not None}
    where = {"local": bool(entry.get("local")), "path": str(entry["path"])}
    return {"name": name, "title": name, "dtype": dtype, **where, **given}
