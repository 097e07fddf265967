"""Checks a config once, as a whole: all problems are reported, one line each. Opens no data."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.config.errors import ConfigError, nearest, shown
from penstock.config.keys import Config, PipelineKeys, Run, SourceEntry
from penstock.config.own import CannotImport, check_pipelines, own_pipelines
from penstock.config.reading import read_yaml


def load_config(path: str | PathLike[str], pipelines: Mapping[str, PipelineKeys], **options: Any) -> Config:
    """Read and check a YAML file.

    Args:
        path: Path of the YAML file.
        pipelines: Known pipelines by recipe name.
        options: Keys that override those of the file.

    Raises:
        ConfigError: One line per problem, each naming the key.
    """
    path = Path(path)
    content = read_yaml(path)
    return make_config({**content, **options}, pipelines, folder=path.parent, name=str(path))


def make_config(
    options: Mapping[str, Any], pipelines: Mapping[str, PipelineKeys], *, folder: Path, name: str = "config"
) -> Config:
    """Check options: those of every run, the sections of pipelines, and the keys of each source.

    Args:
        options: Keys and values of a YAML file.
        pipelines: Known pipelines by recipe name.
        folder: Folder that relative paths are relative to.
        name: Name of the config, for messages.

    Raises:
        ConfigError: One line per problem, each naming the key.
    """
    keys = dict(options)
    pipelines = {**pipelines, **own_pipelines(keys.pop("pipelines", None) or {}, folder, name)}
    check_pipelines(pipelines, name)
    checker = _Checker(folder, pipelines, name)
    sections = {section: keys.pop(section, None) for section in pipelines}
    listed = keys.pop("sources", None)
    recipe = checker.recipe(keys.pop("recipe", Run.model_fields["recipe"].default), "recipe")
    short = {key: keys.pop(key) for key in checker.short_keys(recipe) if key in keys}
    run = checker.check(Run, keys if recipe is None else {**keys, "recipe": recipe})
    known = {
        section: checker.check(pipelines[section].options, {} if value is None else value, section)
        for section, value in sections.items()
    }
    if listed is None:
        entries = [checker.entry(short, recipe)]
    else:
        checker.problems += [
            f"{key}: not allowed next to `sources`; move it into the entries of `sources`" for key in short
        ]
        entries = checker.entries(listed, recipe)
        checker.check_starts(entries, run)
    if checker.problems:
        raise ConfigError("\n".join(f"{name}: {problem}" for problem in checker.problems))
    sources = tuple(entry for entry in entries if entry is not None)
    return Config.model_construct(None, **dict(run), sources=sources, options=known, pipelines=pipelines)


class _Checker:
    """Checks parts of a config against their models, and collects all problems, one line each."""

    def __init__(self, folder: Path, pipelines: Mapping[str, PipelineKeys], name: str) -> None:
        self.problems: list[str] = []
        self._name = name
        self._context = {"folder": folder}
        self._pipelines = pipelines
        self._top_keys: tuple[str, ...] = ()
        self._listed: set[tuple[str, ...]] = set()  # keys that a line lists already

    def short_keys(self, recipe: str | None) -> tuple[str, ...]:
        """Return the keys of an entry of ``sources`` that are allowed at the top level, for a single source."""
        pipelines = self._pipelines if recipe is None else {recipe: self._pipelines[recipe]}
        short = tuple(dict.fromkeys(key for each in pipelines.values() for key in each.source.model_fields))
        self._top_keys = (*Run.model_fields, "sources", *short, "pipelines", *self._pipelines)
        return short

    def check(self, model: type[BaseModel], values: object, *at: str | int) -> Any:
        try:
            return model.model_validate(values, context=self._context)
        except ValidationError as error:
            self.problems += [self._explain(problem, model, at) for problem in error.errors()]
        except CannotImport as error:  # what the module would have added is unknown everywhere else
            raise ConfigError(f"{self._name}: {_dotted(at)}.{error}") from None

    def recipe(self, value: object, *at: str | int) -> str | None:
        """Return the name of a pipeline; None, and a problem, if it is unknown."""
        if isinstance(value, str) and value in self._pipelines:
            return value
        near = nearest(str(value), self._pipelines)
        self.problems.append(f"{_dotted(at)}: {shown(value)} is not one of {', '.join(self._pipelines)}{near}")
        return None

    def entries(self, listed: object, recipe: str | None) -> list[SourceEntry | None]:
        if not isinstance(listed, list | tuple) or not listed:
            form = "{name: …, recipe: …, store: …}"
            self.problems.append(f"sources: expected a list, with one entry such as {form} per source")
            return []
        return [self.entry(entry, recipe, "sources", number) for number, entry in enumerate(listed)]

    def entry(self, values: object, recipe: str | None, *at: str | int) -> SourceEntry | None:
        """Return one entry. ``recipe`` is the default; None if it was reported as a problem already."""
        if not isinstance(values, Mapping):
            self.problems.append(f"{_dotted(at)}: an entry must be a mapping of keys to values, not {shown(values)}")
            return None
        keys = dict(values)
        name = keys.pop("name", "")
        if not isinstance(name, str):
            self.problems.append(f"{_dotted((*at, 'name'))}: expected a text, not {shown(name)}; write it in quotes")
        start = keys.pop("at", 0) if at else 0
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            self.problems.append(f"{_dotted((*at, 'at'))}: expected a sample of the run, 0 or more, not {shown(start)}")
        if "recipe" in keys:
            recipe = self.recipe(keys.pop("recipe"), *at, "recipe")
        if recipe is None:
            return None
        return SourceEntry(name, recipe, self.check(self._pipelines[recipe].source, keys, *at), start)

    def check_starts(self, entries: Iterable[SourceEntry | None], run: Run | None) -> None:
        """Check the samples at which sources come."""
        starts = [entry.at for entry in entries if entry is not None]
        if run is None or self.problems or not any(starts):
            return
        if run.passes is not None or run.rounds is not None:
            kind = "a finite run" if run.rounds is None else "a run in rounds"
            self.problems.append(f"sources: {kind} has all of its sources from the start; remove `at` from the entries")
        elif min(starts):
            self.problems.append("sources: a run needs a source from the start; remove `at` from the first entry")

    def _explain(self, problem: ErrorDetails, model: type[BaseModel], at: tuple[str | int, ...]) -> str:
        """Return one line for a pydantic error: the key, the problem, the nearest valid key."""
        loc = problem["loc"]
        where = _dotted((*at, *loc))
        if problem["type"] == "extra_forbidden":
            valid = tuple(_model_at(model, loc[:-1]).model_fields)
            elsewhere: list[str] = []
            if len(loc) == 1 and not at:
                valid = self._top_keys
                elsewhere = self._keys_of_sections()
            elif len(loc) == 1 and at[0] == "sources":
                valid = ("name", "recipe", "at", *valid)
            near = nearest(str(loc[-1]), (*valid, *elsewhere))
            return f"{where}: unknown key{near or self._list(valid)}"
        if problem["type"] in ("model_type", "model_attributes_type"):
            keys = ", ".join(_model_at(model, loc).model_fields)
            return f"{where}: expected a mapping with keys such as {keys}, not {shown(problem['input'])}"
        if problem["type"] in ("tuple_type", "list_type"):
            return f"{where}: expected a list, not {shown(problem['input'])}"
        if problem["type"] == "too_short":
            few = problem["ctx"]["actual_length"]
            return f"{where}: a list of {few} values, and it takes at least {problem['ctx']['min_length']}"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "value_error" and not loc:
            return f"{where}: {message}" if at else str(message)
        if problem["type"] == "missing" and not at and len(loc) == 1:
            return f"{where}: missing; give it here for a single source, or in every entry of `sources`"
        if problem["type"] == "literal_error":
            valid = tuple(str(problem["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", "))
            given = problem["input"]
            near = nearest(given, valid) if isinstance(given, str) else ""
            return f"{where}: {shown(given)} is not one of {', '.join(valid)}{near}"
        given = f", not {shown(problem['input'])}" if isinstance(problem["input"], str | int | float) else ""
        return f"{where}: {message[0].lower()}{message[1:]}{given if problem['type'] != 'value_error' else ''}"

    def _list(self, valid: tuple[str, ...]) -> str:
        """Return the end of a line that lists the valid keys; empty if an earlier line lists the same ones."""
        if valid in self._listed:
            return ""
        self._listed.add(valid)
        return f"; the keys are {', '.join(valid)}"

    def _keys_of_sections(self) -> list[str]:
        """Return keys of sections, such as ``cache.size``, which a user may have written at the top level."""
        models = {key: _model_at(Run, (key,)) for key in Run.model_fields}
        models |= {name: pipeline.options for name, pipeline in self._pipelines.items()}
        return [f"{name}.{key}" for name, model in models.items() if model is not Run for key in model.model_fields]


def _dotted(keys: Iterable[str | int]) -> str:
    return ".".join(map(str, keys))


def _model_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> type[BaseModel]:
    """Return the model that a key belongs to, by following ``loc`` from the top."""
    for key in loc:
        if isinstance(key, str) and key in model.model_fields:
            annotation = model.model_fields[key].annotation
            inner = [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
            model = next((each for each in inner if issubclass(each, BaseModel)), model)
    return model
