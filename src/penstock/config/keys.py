"""The keys of a run and their meaning, section by section. Reads no file."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from penstock.config.values import AnchoredPath, Pool, Size, StoreUrl, Weights


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
    """The node cache: its folder, its maximum size in bytes, and the group of users that share it, if any."""

    dir: AnchoredPath
    size: Size
    group: str | None = None


class RemoteConfig(Strict):
    """How to reach a remote store, beyond its URL and the environment. Secrets belong in the environment."""

    endpoint: str = ""
    region: str = ""
    anonymous: bool = False
    requests_per_second: float | None = Field(default=None, gt=0)
    timeout_seconds: float = Field(default=30.0, gt=0)


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
    weights: Weights = None
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


class Run(Strict):
    """The keys of every run; those of its pipelines come in addition."""

    recipe: str = "raw"
    seed: int = 0
    batch_size: int | None = Field(default=None, ge=1)
    global_batch_size: int | None = Field(default=None, ge=1)
    cache: CacheConfig | None = None
    prefetch: PrefetchConfig = PrefetchConfig()
    usage: UsageConfig | None = None
    pool: Pool = "auto"
    lanes: int = Field(default=1, ge=1)
    mixture: Annotated[tuple[MixtureConfig, ...], BeforeValidator(_mixtures)] = (MixtureConfig(),)
    passes: int | None = Field(default=None, ge=1)
    drop_last: bool = False
    uneven: bool = False
    on_error: Literal["substitute", "raise"] = "substitute"
    max_bad: float = Field(default=0.05, ge=0, le=1)

    @model_validator(mode="after")
    def _consistent(self) -> "Run":
        if (self.batch_size is None) == (self.global_batch_size is None):
            raise ValueError("batch_size: give either batch_size or global_batch_size")
        starts = [mixture.at for mixture in self.mixture]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise ValueError(f"mixture: the `at` of a schedule must start at 0 and increase, not {starts}")
        return self


class Config(Run):
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
        max_bad: the share of bad samples above which a run stops, from 1,000 samples on: before, a share means little.
        sources: the data, in order. In the file: ``sources:``, a list of ``{name, recipe, …}``, or for a single source
            its keys at the top level (``filelist`` or ``manifest``, ``store``, ``remote``).
        options: the section of every pipeline, by name: in the file ``speech:`` and others.
        pipelines: all pipelines, by name. In the file ``pipelines: {name: "module:Class"}`` adds to them.
    """

    sources: tuple[SourceEntry, ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    pipelines: dict[str, Any] = Field(default_factory=dict)
