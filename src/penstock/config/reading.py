"""Reads the YAML file of a config: keys and values, each key once. Knows no key's meaning."""

from pathlib import Path
from typing import Any

import yaml

from penstock.config.errors import ConfigError

MAX_VALUES = 100_000  # an alias counts as often as it is used: a short file can mean a billion values

_REASONS = {FileNotFoundError: "no such file", IsADirectoryError: "a folder, and not the YAML file of a run"}


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the keys and values of a file.

    Raises:
        ConfigError: If there is no such file, it is not YAML, a key is given twice, or aliases make it too large.
    """
    try:
        content = _parsed(path)
    except OSError as error:
        reason = _REASONS.get(type(error)) or str(error.strerror).lower()
        raise ConfigError(f"{path}: {reason}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not a config: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: text that is not UTF-8, a date that does not exist
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a config must be a mapping of keys to values")
    return content


def _parsed(path: Path) -> object:
    loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _count(node, str(path), {}) > MAX_VALUES:
            raise ConfigError(f"{path}: its aliases stand for more than {MAX_VALUES:,} values; write fewer of them")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count(node: yaml.Node, path: str, counted: dict[int, int]) -> int:
    """Return how many values a node stands for, and check that no mapping below it has a key twice."""
    known = counted.get(id(node))
    if known is not None:
        return known
    counted[id(node)] = MAX_VALUES + 1  # for an alias to a node that contains it
    below: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, path)
        below = [value for _, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        below = node.value
    counted[id(node)] = 1 + sum(_count(each, path, counted) for each in below)
    return counted[id(node)]


def _check_keys(node: yaml.MappingNode, path: str) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
        line = key.start_mark.line + 1
        first = lines.get((key.tag, key.value))
        if first is not None:
            raise ConfigError(f"{path}: {key.value}: given twice, in lines {first} and {line}; remove one of them")
        lines[key.tag, key.value] = line
