"""The configuration of a run, checked once when it is loaded. Knows the keys and their meaning; opens no data."""

import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

_NUMBER = r"\d+(?:\.\d*)?|\.\d+"
_UNITS = {"B": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("KMGTP", start=1)
    for suffix, base in (("B", 1000), ("iB", 1024))
}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


class ConfigError(ValueError):
    """A configuration that cannot be used. The message has one line per problem, each naming the key."""


def _size(value: object) -> object:
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
        ValueError: the text is not a duration.
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
                raise ValueError(f"the weight of {name} must be a number, 0 or more, not {weight!r}")
        return {str(name): weight for name, weight in value.items()}
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r} is neither the name of an amount, such as hours or items, nor {{name: weight}}")
    return value


def _pool(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError(f"{value!r} is neither auto nor a number of groups, 1 or more")


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``; did you mean …?`` with the most similar valid name, or an empty text if none is similar."""
    close = get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def _anchored(path: Path, info: ValidationInfo) -> Path:
    return _folder(info) / path.expanduser()


def _anchored_store(store: str, info: ValidationInfo) -> str:
    return store if "://" in store else str(_folder(info) / Path(store).expanduser())


def _folder(info: ValidationInfo) -> Path:
    """What relative paths are relative to: the folder of the config."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder.absolute()  # workers open the same files even if the process changes its working directory


Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]
AnchoredPath = Annotated[Path, AfterValidator(_anchored)]
"""A path that is relative to the config's folder."""
StoreUrl = Annotated[str, AfterValidator(_anchored_store)]
"""A URL, or a folder that is relative to the config's folder."""


class Strict(BaseModel):
    """A section of the config: an unknown key is an error that names the nearest valid one."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_flag_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        # In Python True is 1, but `lanes: yes` is a mistake.
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError(f"{str(value).lower()} is not a valid value of this key")
        return value


class CacheConfig(Strict):
    """The node cache: its folder, and its maximum size in bytes."""

    dir: AnchoredPath
    size: Size


class RemoteConfig(Strict):
    """How to reach a remote store, beyond its URL and the environment. Secrets belong in the environment."""

    endpoint: str = ""
    region: str = ""
    anonymous: bool = False
    requests_per_second: float | None = Field(default=None, gt=0)


class PrefetchConfig(Strict):
    """Fetching ahead from remote stores: number of steps, requests at once, and maximum bytes per second."""

    steps: int = Field(default=32, ge=0)
    concurrency: int = Field(default=8, ge=1)
    bandwidth: Size | None = None


class UsageConfig(Strict):
    """The usage ledger: its file, the number of steps per line, and whether it has the ids of all samples."""

    log: AnchoredPath = Path("logs/data_usage.jsonl")
    every: int = Field(default=100, ge=1)
    ids: bool = False


class MixtureConfig(Strict):
    """Weights over sources, from sample ``at`` of the run on.

    Attributes:
        weights: an amount that all sources have (``hours``, ``items``), ``equal``, or ``{name: weight}``. By default
            hours where the durations of all sources are known, else items.
    """

    at: int = Field(default=0, ge=0)
    weights: Annotated[str | dict[str, float] | None, PlainValidator(_weights)] = None
    temperature: float = Field(default=1.0, ge=0)


def _mixtures(value: object) -> object:
    return list(value) if isinstance(value, list | tuple) else [value]


class StoreKeys(Strict):
    """The keys by which an entry of ``sources`` names the store that its paths are relative to."""

    store: StoreUrl = "."
    remote: RemoteConfig = RemoteConfig()


class PipelineKeys(Protocol):
    """What the config needs to know of a pipeline: its keys."""

    @property
    def options(self) -> type[BaseModel]: ...

    @property
    def source(self) -> type[BaseModel]: ...


class SourceEntry(NamedTuple):
    """One entry of ``sources``.

    Attributes:
        name: of its source; if it has several, the prefix of their names. Empty: sources keep their own names.
        recipe: the name of the pipeline that opens it.
        keys: the options of that pipeline for this entry.
    """

    name: str
    recipe: str
    keys: Any


class _Run(Strict):
    """The keys of every run; those of its pipelines come in addition."""

    recipe: str = "raw"
    seed: int = 0
    batch_size: int | None = Field(default=None, ge=1)
    global_batch_size: int | None = Field(default=None, ge=1)
    cache: CacheConfig | None = None
    prefetch: PrefetchConfig = PrefetchConfig()
    usage: UsageConfig | None = None
    pool: Annotated[Literal["auto"] | int, PlainValidator(_pool)] = "auto"
    lanes: int = Field(default=1, ge=1)
    mixture: Annotated[tuple[MixtureConfig, ...], BeforeValidator(_mixtures)] = (MixtureConfig(),)
    passes: int | None = Field(default=None, ge=1)
    drop_last: bool = False
    uneven: bool = False
    on_error: Literal["substitute", "raise"] = "substitute"
    max_bad: float = Field(default=0.05, ge=0, le=1)

    @model_validator(mode="after")
    def _consistent(self) -> "_Run":
        if (self.batch_size is None) == (self.global_batch_size is None):
            raise ValueError("batch_size: give either batch_size or global_batch_size")
        starts = [mixture.at for mixture in self.mixture]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise ValueError(f"mixture: the `at` of a schedule must start at 0 and increase, not {starts}")
        return self


class Config(_Run):
    """One training run, checked. The keys are those of the YAML file; relative paths are relative to that file.

    Attributes:
        recipe: the pipeline of sources that name none, and its section in ``options``.
        batch_size: samples per rank; ``global_batch_size`` instead keeps global batches the same on any world.
        cache: the node cache for data of remote stores; a local folder is read in place.
        prefetch: how far ahead of the steps data of remote stores are fetched.
        usage: the usage ledger; none by default.
        pool: groups resident per source and lane.
        mixture: one mixture, or a list of them that take over ``at`` given samples.
        passes: None for an endless run; else the number of passes over every item, without weights.
        drop_last: drop the last, incomplete batch of a finite run instead of padding it.
        uneven: allow a global batch size that is not a multiple of the number of ranks.
        on_error: what happens to a sample that cannot be decoded: substitute another of its chunk, or raise.
        max_bad: the share of bad samples above which a run stops.
        sources: the data, in order. In the file: ``sources:``, a list of ``{name, recipe, …}``, or for a single source
            its keys at the top level (``filelist`` or ``manifest``, ``store``, ``remote``).
        options: the section of every pipeline, by name: in the file ``speech:`` and others.
        pipelines: all pipelines, by name. In the file ``pipelines: {name: "module:Class"}`` adds to them.
    """

    sources: tuple[SourceEntry, ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    pipelines: dict[str, Any] = Field(default_factory=dict)


def load_config(path: str | PathLike[str], pipelines: Mapping[str, PipelineKeys], **options: Any) -> Config:
    """Read and check a YAML file.

    Args:
        path: of the YAML file.
        pipelines: the known pipelines, by recipe name.
        options: keys that override those of the file.

    Raises:
        ConfigError: one line per problem, each naming the key.
    """
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a config must be a mapping of keys to values")
    return make_config({**content, **options}, pipelines, folder=path.parent, name=str(path))


def make_config(
    options: Mapping[str, Any], pipelines: Mapping[str, PipelineKeys], *, folder: Path, name: str = "config"
) -> Config:
    """Check options: those of every run, the sections of pipelines, and the keys of each source.

    Args:
        options: the keys and values of a YAML file.
        pipelines: the known pipelines, by recipe name.
        folder: what relative paths are relative to.
        name: of the config, for messages.

    Raises:
        ConfigError: one line per problem, each naming the key.
    """
    keys = dict(options)
    pipelines = {**pipelines, **_own_pipelines(keys.pop("pipelines", None) or {}, folder, name)}
    _check_pipelines(pipelines, name)
    checker = _Checker(folder, pipelines)
    sections = {section: keys.pop(section, None) for section in pipelines}
    listed = keys.pop("sources", None)
    recipe = checker.recipe(keys.pop("recipe", _Run.model_fields["recipe"].default), "recipe")
    short = {key: keys.pop(key) for key in checker.short_keys(recipe) if key in keys}
    run = checker.check(_Run, keys if recipe is None else {**keys, "recipe": recipe})
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
    if checker.problems:
        raise ConfigError("\n".join(f"{name}: {problem}" for problem in checker.problems))
    sources = tuple(entry for entry in entries if entry is not None)
    return Config.model_construct(None, **dict(run), sources=sources, options=known, pipelines=pipelines)


def _own_pipelines(given: Any, folder: Path, name: str) -> dict[str, PipelineKeys]:
    """The user's own pipelines: given as objects, or as ``module:Class``, which is imported and instantiated."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name}: pipelines: expected a mapping of names to 'module:Class', not {given!r}")
    return {
        str(key): _imported(value, folder, f"{name}: pipelines.{key}") if isinstance(value, str) else value
        for key, value in given.items()
    }


def _check_pipelines(pipelines: Mapping[str, Any], name: str) -> None:
    """Refuse what is no pipeline, and names that mean something else in a config or in a batch."""
    for key, pipeline in pipelines.items():
        if key in _TAKEN_NAMES or key in _Run.model_fields:
            raise ConfigError(f"{name}: pipelines.{key}: this name is taken; give the pipeline another one")
        missing = [each for each in ("options", "source", "recipe", "open") if not hasattr(pipeline, each)]
        if missing:
            raise ConfigError(f"{name}: pipelines.{key}: {pipeline!r} is no pipeline: it has no {', '.join(missing)}")


def _imported(path: str, folder: Path, where: str) -> PipelineKeys:
    """Import a class, also from the folder of the config, and instantiate it."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{where}: expected 'module:Class', not {path!r}")
    if str(folder.absolute()) not in sys.path:
        sys.path.append(str(folder.absolute()))  # at the end, so that it hides no installed module; workers get it, too
    try:
        found = import_module(module)
    except (ImportError, TypeError) as error:  # a relative name is a TypeError
        raise ConfigError(f"{where}: {path!r} cannot be imported: {error}") from None
    if not hasattr(found, name):
        raise ConfigError(f"{where}: the module {module} has no {name}")
    try:
        made: PipelineKeys = getattr(found, name)()
    except TypeError as error:
        raise ConfigError(f"{where}: {path!r} cannot be instantiated: {error}") from None
    return made


_TAKEN_NAMES = ("filelist", "ids", "manifest", "pipelines", "remote", "rows", "slots", "sources", "step", "store")


class _Checker:
    """Checks parts of a config against their models, and collects all problems, one line each."""

    def __init__(self, folder: Path, pipelines: Mapping[str, PipelineKeys]) -> None:
        self.problems: list[str] = []
        self._context = {"folder": folder}
        self._pipelines = pipelines
        self._top_keys: tuple[str, ...] = ()

    def short_keys(self, recipe: str | None) -> tuple[str, ...]:
        """The keys of an entry of ``sources`` that are allowed at the top level, for a single source."""
        pipelines = self._pipelines if recipe is None else {recipe: self._pipelines[recipe]}
        short = tuple(dict.fromkeys(key for each in pipelines.values() for key in each.source.model_fields))
        self._top_keys = (*_Run.model_fields, "sources", *short, "pipelines", *self._pipelines)
        return short

    def check(self, model: type[BaseModel], values: Any, *at: str | int) -> Any:
        try:
            return model.model_validate(values, context=self._context)
        except ValidationError as error:
            self.problems += [self._explain(problem, model, at) for problem in error.errors()]

    def recipe(self, value: Any, *at: str | int) -> str | None:
        """The name of a pipeline; None, and a problem, if there is none of that name."""
        if isinstance(value, str) and value in self._pipelines:
            return value
        near = nearest(str(value), self._pipelines)
        self.problems.append(f"{_dotted(at)}: {value!r} is not one of {', '.join(self._pipelines)}{near}")
        return None

    def entries(self, listed: Any, recipe: str | None) -> list[SourceEntry | None]:
        if not isinstance(listed, list | tuple) or not listed:
            form = "{name: …, recipe: …, store: …}"
            self.problems.append(f"sources: expected a list, with one entry such as {form} per source")
            return []
        return [self.entry(entry, recipe, "sources", number) for number, entry in enumerate(listed)]

    def entry(self, values: Any, recipe: str | None, *at: str | int) -> SourceEntry | None:
        """One entry. ``recipe`` is its default, None if that was reported as a problem already."""
        if not isinstance(values, Mapping):
            self.problems.append(f"{_dotted(at)}: an entry must be a mapping of keys to values, not {values!r}")
            return None
        keys = dict(values)
        name = keys.pop("name", "")
        if not isinstance(name, str):
            self.problems.append(f"{_dotted((*at, 'name'))}: expected a text, not {name!r}; write it in quotes")
        if "recipe" in keys:
            recipe = self.recipe(keys.pop("recipe"), *at, "recipe")
        if recipe is None:
            return None
        return SourceEntry(name, recipe, self.check(self._pipelines[recipe].source, keys, *at))

    def _explain(self, problem: Any, model: type[BaseModel], at: tuple[str | int, ...]) -> str:
        """One line for a pydantic error: the key, the problem, the nearest valid key."""
        loc = problem["loc"]
        where = _dotted((*at, *loc))
        if problem["type"] == "extra_forbidden":
            valid = tuple(_model_at(model, loc[:-1]).model_fields)
            if len(loc) == 1 and not at:
                valid = self._top_keys
            elif len(loc) == 1 and at[0] == "sources":
                valid = ("name", "recipe", *valid)
            return f"{where}: unknown key{nearest(str(loc[-1]), valid) or '; the keys are ' + ', '.join(valid)}"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "value_error" and not loc:
            return f"{where}: {message}" if at else str(message)
        if problem["type"] == "literal_error" and isinstance(problem["input"], str):
            valid = tuple(str(problem["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", "))
            return f"{where}: {problem['input']!r} is not one of {', '.join(valid)}{nearest(problem['input'], valid)}"
        given = f", not {problem['input']!r}" if isinstance(problem["input"], str | int | float) else ""
        return f"{where}: {message[0].lower()}{message[1:]}{given if problem['type'] != 'value_error' else ''}"


def _dotted(keys: Iterable[str | int]) -> str:
    return ".".join(map(str, keys))


def _model_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> type[BaseModel]:
    """The model that a key belongs to, found by following ``loc`` from the top."""
    for key in loc:
        if isinstance(key, str) and key in model.model_fields:
            annotation = model.model_fields[key].annotation
            inner = [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
            model = next((each for each in inner if issubclass(each, BaseModel)), model)
    return model
