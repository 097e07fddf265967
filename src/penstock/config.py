"""What a run is configured by, checked once at the door. Knows the keys and their meaning, opens nothing."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
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
_AMOUNTS = ("hours", "items", "equal")


class ConfigError(ValueError):
    """A configuration that can't be used. Its text is one line a problem, each naming the key."""


def _size(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([a-zA-Z]+)\s*", value)
    units = {unit.lower(): factor for unit, factor in _UNITS.items()}
    if not match or match[2].lower() not in units:
        raise ValueError(f"{value!r} is not a size; write it as 500GB (10^9 bytes) or 500GiB (2^30 bytes)")
    return int(float(match[1]) * units[match[2].lower()])


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(ms|s|min|h)\s*", value)
    if not match:
        raise ValueError(f"{value!r} is not a duration; write it as 6s, 500ms, 2min or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _crop(value: object) -> object:
    seconds = _duration(value) if value != "full" else value
    if seconds == "full" or (isinstance(seconds, int | float) and 0 < seconds < float("inf")):
        return seconds
    raise ValueError(f"{value!r} is neither full nor a duration above 0, such as 6s")


def _weights(value: object) -> object:
    if isinstance(value, dict):
        for name, weight in value.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
                raise ValueError(f"the weight of {name} is a number, 0 or more, not {weight!r}")
        return {str(name): weight for name, weight in value.items()}
    if value not in _AMOUNTS:
        near = _nearest(str(value), _AMOUNTS)
        raise ValueError(f"{value!r} is none of {', '.join(_AMOUNTS)} or {{name: weight}}{near}")
    return value


def _pool(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError(f"{value!r} is neither auto nor a number of groups, 1 or more")


def _nearest(name: str, valid: tuple[str, ...]) -> str:
    close = get_close_matches(name, valid, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_flag_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        # Python's True is 1, but who writes `lanes: yes` means something else.
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError(f"{str(value).lower()} is no value of this key")
        return value


class CacheConfig(_Strict):
    """The node cache: where, and how many bytes at most."""

    dir: Path
    size: Size


class RemoteConfig(_Strict):
    """How to reach a remote store, where its URL and the environment do not say it. Secrets never stand here."""

    endpoint: str = ""
    region: str = ""
    anonymous: bool = False
    requests_per_second: float | None = Field(default=None, gt=0)


class PrefetchConfig(_Strict):
    """How far ahead of the steps bytes are fetched from a remote store, by how many requests at once, how fast."""

    steps: int = Field(default=32, ge=0)
    concurrency: int = Field(default=8, ge=1)
    bandwidth: Size | None = None  # bytes a second


class UsageConfig(_Strict):
    """The ledger of what was used: where, a line every so many steps, and whether with the ids of all samples."""

    log: Path = Path("logs/data_usage.jsonl")
    every: int = Field(default=100, ge=1)
    ids: bool = False


class MixtureConfig(_Strict):
    """Weights over sources, from sample ``at`` of the run on."""

    at: int = Field(default=0, ge=0)
    weights: Annotated[Literal["hours", "items", "equal"] | dict[str, float], PlainValidator(_weights)] = "hours"
    temperature: float = Field(default=1.0, ge=0)


class SpeechConfig(_Strict):
    """The speech recipe: seconds a crop (or clips in full length, padded to the longest of a batch), which channel of
    several (or their mean), and whether features are made (``exact``: in float64)."""

    crop: Annotated[Literal["full"] | float, PlainValidator(_crop)] = 6.0
    channel: Literal["first", "mean"] = "first"
    features: bool | Literal["exact"] = True


def _mixtures(value: object) -> object:
    return list(value) if isinstance(value, list | tuple) else [value]


class Config(_Strict):
    """One training run. The keys are those of the YAML file; relative paths are relative to that file.

    Attributes:
        batch_size: samples a rank; ``global_batch_size`` instead keeps global batches the same on any world.
        filelist: the 4-column TSV; or ``manifest``, the folder that ``penstock index`` makes.
        store: what shard paths are relative to: a folder or a URL.
        remote: endpoint, region, anonymous access and request budget of a remote store.
        cache: what was read from a remote store is kept here; a folder is read in place.
        prefetch: how far ahead of the steps a remote store is read.
        usage: the ledger of what was used; none by default.
        pool: groups resident a source and lane.
        mixture: one mixture, or a list of them that take over ``at`` given samples.
        speech: what the speech recipe makes.
        passes: None for an endless run; else so many passes over every item, weights not applied.
        drop_last: leave out the last, incomplete batch of a finite run instead of padding it.
        uneven: allow a global batch that the ranks can't share equally.
        on_error: what a sample that can't be decoded leads to: another of its chunk, or an exception.
        max_bad: the share of bad samples past which a run stops.
    """

    recipe: Literal["raw", "speech", "chat", "robot"] = "raw"
    seed: int = 0
    batch_size: int | None = Field(default=None, ge=1)
    global_batch_size: int | None = Field(default=None, ge=1)
    filelist: Path | None = None
    manifest: Path | None = None
    store: str = "."
    remote: RemoteConfig = RemoteConfig()
    cache: CacheConfig | None = None
    prefetch: PrefetchConfig = PrefetchConfig()
    usage: UsageConfig | None = None
    pool: Annotated[Literal["auto"] | int, PlainValidator(_pool)] = "auto"
    lanes: int = Field(default=1, ge=1)
    mixture: Annotated[tuple[MixtureConfig, ...], BeforeValidator(_mixtures)] = (MixtureConfig(),)
    speech: SpeechConfig = SpeechConfig()
    passes: int | None = Field(default=None, ge=1)
    drop_last: bool = False
    uneven: bool = False
    on_error: Literal["substitute", "raise"] = "substitute"
    max_bad: float = Field(default=0.05, ge=0, le=1)

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        for one, other in (("batch_size", "global_batch_size"), ("filelist", "manifest")):
            if (getattr(self, one) is None) == (getattr(self, other) is None):
                raise ValueError(f"{one}: give either {one} or {other}")
        starts = [mixture.at for mixture in self.mixture]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise ValueError(f"mixture: a schedule begins at 0 and its `at` rise, not {starts}")
        return self


def load_config(path: str | PathLike[str], **options: Any) -> Config:
    """Read a YAML file; options given in Python win over its keys."""
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a config is a mapping of keys to values")
    return make_config({**content, **options}, folder=path.parent, name=str(path))


def make_config(options: Mapping[str, Any], *, folder: Path, name: str = "config") -> Config:
    """Check options, and anchor relative paths at a folder."""
    folder = folder.absolute()  # workers open the same files, wherever the process has gone in the meantime
    try:
        config = Config.model_validate(dict(options))
    except ValidationError as error:
        raise ConfigError("\n".join(f"{name}: {_explain(problem)}" for problem in error.errors())) from None

    def anchor(path: str | Path) -> Path:
        return folder / Path(path).expanduser()

    anchored: dict[str, Any] = {
        key: anchor(value) for key in ("filelist", "manifest") if (value := getattr(config, key)) is not None
    }
    if "://" not in config.store:
        anchored["store"] = str(anchor(config.store))
    if config.cache is not None:
        anchored["cache"] = config.cache.model_copy(update={"dir": anchor(config.cache.dir)})
    if config.usage is not None:
        anchored["usage"] = config.usage.model_copy(update={"log": anchor(config.usage.log)})
    return config.model_copy(update=anchored)


def _explain(problem: Any) -> str:
    """One line for a pydantic error: the key, what is wrong, the nearest valid key."""
    path = [str(part) for part in problem["loc"]]
    where = ".".join(path)
    if problem["type"] == "extra_forbidden":
        models = {
            "cache": CacheConfig,
            "mixture": MixtureConfig,
            "prefetch": PrefetchConfig,
            "remote": RemoteConfig,
            "speech": SpeechConfig,
            "usage": UsageConfig,
        }
        model: Any = models[path[0]] if len(path) > 1 else Config
        valid = tuple(model.model_fields)
        return f"{where}: unknown key{_nearest(path[-1], valid) or '; the keys are ' + ', '.join(valid)}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "value_error" and not where:
        return str(message)
    if problem["type"] == "literal_error" and isinstance(problem["input"], str):
        valid = tuple(str(problem["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", "))
        return f"{where}: {problem['input']!r} is none of {', '.join(valid)}{_nearest(problem['input'], valid)}"
    given = f", not {problem['input']!r}" if isinstance(problem["input"], str | int | float) else ""
    return f"{where}: {message[0].lower()}{message[1:]}{given if problem['type'] != 'value_error' else ''}"
