"""Modules of the user's own that a config names, and its `pipelines:`, imported and checked."""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from penstock.config.errors import ConfigError, shown
from penstock.config.keys import PipelineKeys, Run

_TAKEN_NAMES = ("filelist", "ids", "manifest", "pipelines", "remote", "rows", "slots", "sources", "step", "store")
_PIPELINE_NAMES = ("options", "source", "recipe", "open")


class CannotImport(ImportError):
    """A module that a config names cannot be imported. The message says why."""


def import_own(module: str, folder: Path) -> ModuleType:
    """Import a module, also from the folder of the config.

    Raises:
        CannotImport: If there is no such module, or it raises an exception.
    """
    if str(folder.absolute()) not in sys.path:
        sys.path.append(str(folder.absolute()))  # at the end, so that it hides no installed module; workers get it, too
    try:
        return import_module(module)
    except Exception as error:  # whatever the module does when it is imported; a relative name is a TypeError
        raise CannotImport(_reason(error)) from None


def _reason(error: Exception) -> str:
    """Return in one line what an exception says, and where the user's own code raised it."""
    said = " ".join(str(error).split())
    if isinstance(error, ImportError | SyntaxError):  # they say where
        return said
    frames = [frame for frame in extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    last = frames[-1]
    place = f" ({Path(last.filename).name}, line {last.lineno})" if len(frames) > 1 else ""
    return f"{type(error).__name__}: {said}{place}"


def own_pipelines(given: object, folder: Path, name: str) -> dict[str, PipelineKeys]:
    """Return pipelines of the user: objects, or ``module:Class``, which is imported and instantiated."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name}: pipelines: expected a mapping of names to 'module:Class', not {shown(given)}")
    return {
        str(key): _imported(value, folder, f"{name}: pipelines.{key}") if isinstance(value, str) else value
        for key, value in given.items()
    }


def check_pipelines(pipelines: Mapping[str, object], name: str) -> None:
    """Refuse objects that are not pipelines, and names that mean something else in a config or a batch."""
    for key, pipeline in pipelines.items():
        if key in _TAKEN_NAMES or key in Run.model_fields:
            raise ConfigError(f"{name}: pipelines.{key}: this name is taken; give the pipeline another one")
        missing = [each for each in _PIPELINE_NAMES if not hasattr(pipeline, each)]
        if missing:
            raise ConfigError(
                f"{name}: pipelines.{key}: {shown(pipeline)} is not a pipeline: it has no {', '.join(missing)}"
            )


def _imported(path: str, folder: Path, where: str) -> PipelineKeys:
    """Import a class, also from the folder of the config, and instantiate it."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{where}: expected 'module:Class', not {path!r}")
    try:
        found = import_own(module, folder)
    except CannotImport as error:
        raise ConfigError(f"{where}: {path!r} cannot be imported: {error}") from None
    if not hasattr(found, name):
        raise ConfigError(f"{where}: the module {module} has no {name}")
    try:
        made: PipelineKeys = getattr(found, name)()
    except TypeError as error:
        raise ConfigError(f"{where}: {path!r} cannot be instantiated: {error}") from None
    return made
