"""The keys of a run and their meaning, section by section. Reads no file."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from penstock.config.errors import nearest, shown
from penstock.config.values import AnchoredPath, ItemNames, Pool, Size, StoreUrl, Weights, expects


class Strict(BaseModel):
    """A section of the config: an unknown key is an error that names the nearest valid one.

    Examples:
        >>> import penstock
        >>> class CaptionOptions(penstock.Strict):
        ...     max_letters: int = 200
        >>> CaptionOptions(max_letters=80)
        CaptionOptions(max_letters=80)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_flag_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        # In Python True is 1, but `lanes: yes` is a mistake.
        annotation = cls.model_fields[str(info.field_name)].annotation
        if get_origin(annotation) is Literal:
            return value  # what it may be is said better there
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError(f"{str(value).lower()} is not a valid value of this key")
        return value


class BatchConfig(Strict):
    """Batches by length: as many samples per unit as fit a budget when they are padded.

    Attributes:
        seconds: Budget of a unit for recipes that pad by time: number of samples times the longest of them.
        tokens: Budget of a unit for recipes that pad tokens.
        units: Units per step over all ranks. By default the number of ranks at the first start, kept in the state.
        window: Samples among which lengths are sorted; ``auto`` takes at least 64 steps.
        too_long: Action for a sample that is longer than the budget: leave it out, or give it a unit for itself.
        quadratic_after: Length from which attention costs more than all else: a sample of length L counts
            L + L² / quadratic_after. By default L.
    """

    seconds: float | None = Field(default=None, gt=0, le=1e6)
    tokens: int | None = Field(default=None, ge=1, le=1 << 28)
    units: int | None = Field(default=None, ge=1, le=1 << 16)
    window: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1, le=1 << 22)],
        expects("auto or a number of samples, from 1 to 4,194,304"),
    ] = "auto"
    too_long: Literal["skip", "alone"] = "skip"
    quadratic_after: float | None = Field(default=None, ge=0.1, le=1e9)

    @model_validator(mode="after")
    def _some_budget(self) -> "BatchConfig":
        if self.seconds is None and self.tokens is None:
            raise ValueError("give the budget of a unit: `seconds: 600`, or `tokens: 16384`")
        if self.quadratic_after is not None and None not in (self.seconds, self.tokens):
            raise ValueError("quadratic_after: is one length, in seconds or in tokens; give one budget, or remove it")
        return self

    def budget(self, unit: str) -> float | None:
        """Return the budget in a unit of length."""
        return {"seconds": self.seconds, "tokens": self.tokens}.get(unit)


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
    """Fetching ahead from remote stores: number of steps, requests at once, and maximum bytes per second.

    With a ``concurrency`` of 0, the thread that makes a batch fetches ahead, one request at a time.
    """

    steps: int = Field(default=32, ge=0)
    concurrency: int = Field(default=8, ge=0)
    bandwidth: Size | None = None


class UsageConfig(Strict):
    """The usage ledger: its file, the number of steps per line, and whether it has the ids of all samples."""

    log: AnchoredPath = Path("logs/data_usage.jsonl")
    every: int = Field(default=100, ge=1)
    ids: bool = False


class MetricsConfig(Strict):
    """Metrics for Prometheus: the port of local rank 0, and the address to listen on, by default the loopback only."""

    port: int = Field(ge=1, le=65_535)
    host: str = "127.0.0.1"


class RoundsConfig(Strict):
    """Rounds: every source gives one sample per round until a cap ends its epoch; its own ``limit`` is one of them.

    Attributes:
        max_per_epoch: Samples per epoch, without repeats. By default an epoch ends when all sources are capped.
        max_per_source: Samples per source and epoch, without repeats.
        max_per_modality: Samples per epoch, without repeats, by modality.
        repeat: Number of times that each sample comes, in a row.
    """

    max_per_epoch: int | None = Field(default=None, ge=1)
    max_per_source: int | None = Field(default=None, ge=1)
    max_per_modality: dict[str, Annotated[int, Field(strict=True, ge=0)]] = Field(default_factory=dict)
    repeat: int = Field(default=1, ge=1)


class MixtureConfig(Strict):
    """Weights over sources, from sample ``at`` of the run on; or rounds over them.

    Attributes:
        weights: Amount that all sources have (``hours``, ``items``), ``equal``, or ``{name: weight}``. By default
            hours where the durations of all sources are known, else items.
        rounds: Rounds instead of weights, for the whole run.
        until: Sample from which the weights hold, if they are approached in stages.
        stages: Number of equal changes from the weights before to these, the first at ``at``, the last at ``until``.
    """

    at: int = Field(default=0, ge=0)
    weights: Weights = None
    temperature: float = Field(default=1.0, ge=0)
    rounds: RoundsConfig | None = None
    until: int | None = None
    stages: int = Field(default=8, ge=2, le=100)

    @model_validator(mode="after")
    def _either(self) -> "MixtureConfig":
        beside = sorted(self.model_fields_set - {"rounds"})
        if self.rounds is not None and beside:
            raise ValueError(f"rounds take the place of {', '.join(beside)}; give one or the other")
        if self.until is None and "stages" in self.model_fields_set:
            raise ValueError("stages: give `until` as well, the sample from which these weights hold")
        if self.until is not None and not self.at:
            raise ValueError("until: the first mixture has no weights before it to start from; remove `until`")
        if self.until is not None and self.until - self.at < self.stages - 1:
            raise ValueError(f"until: {self.until} is too close to at: {self.at} for {self.stages} stages")
        return self


def _mixtures(value: object) -> object:
    return [_with_rounds(each) for each in (value if isinstance(value, list | tuple) else [value])]


def _with_rounds(mixture: object) -> object:
    """Return a mixture whose rounds are written out: ``rounds`` alone means rounds without options.

    Raises:
        ValueError: If it is another text; the message shows how to write weights.
    """
    if mixture == "rounds":
        return {"rounds": {}}
    if isinstance(mixture, str):
        near = nearest(mixture, ("rounds",)) or f"; write {{weights: {mixture}}}, or rounds"
        raise ValueError(f"{shown(mixture)} is not a mixture{near}")
    if isinstance(mixture, dict) and "rounds" in mixture and mixture["rounds"] is None:
        return {**mixture, "rounds": {}}
    return mixture


class ExcludeConfig(Strict):
    """Items that are no longer drawn from sample ``at`` of the run on. Other items of their chunk take their places.

    Attributes:
        items: Names of items (id, or group:id) or of groups; or a text file with one name per line.
    """

    at: int = Field(default=0, ge=0)
    items: ItemNames


class StoreKeys(Strict):
    """The keys by which an entry of ``sources`` names the store that its paths are relative to.

    Examples:
        >>> import penstock
        >>> class CaptionKeys(penstock.StoreKeys):  # has `store` and `remote`
        ...     files: list[str]
        >>> CaptionKeys(store="s3://bucket/captions", files=["a.jsonl"]).store
        's3://bucket/captions'
    """

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
        name: Name of its source, or prefix of the names of several. If empty, sources keep their own names.
        recipe: Name of the pipeline that opens it.
        keys: Keys of that pipeline for this entry.
        at: First sample of the run that may draw from it.
    """

    name: str
    recipe: str
    keys: SerializeAsAny[BaseModel]
    at: int = 0


class Run(Strict):
    """The keys of every run; those of its pipelines come in addition."""

    recipe: str = "raw"
    seed: int = 0
    batch_size: int | None = Field(default=None, ge=1)
    global_batch_size: int | None = Field(default=None, ge=1)
    batch: BatchConfig | None = None
    cache: CacheConfig | None = None
    indexes: StoreKeys | None = None
    prefetch: PrefetchConfig = PrefetchConfig()
    usage: UsageConfig | None = None
    metrics: MetricsConfig | None = None
    pool: Pool = "auto"
    lanes: int = Field(default=1, ge=1)
    shuffle: bool = True
    whole_epochs: bool = False
    mixture: Annotated[tuple[MixtureConfig, ...], BeforeValidator(_mixtures)] = (MixtureConfig(),)
    exclude: tuple[ExcludeConfig, ...] = ()
    passes: int | None = Field(default=None, ge=1)
    drop_last: bool = False
    uneven: bool = False
    balance: bool = False
    on_error: Literal["substitute", "raise"] = "substitute"
    max_bad: float = Field(default=0.05, ge=0, le=1)
    fields: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Run":
        sizes = (self.batch_size, self.global_batch_size, self.batch)
        if self.batch is None and sizes.count(None) != 2:
            raise ValueError("batch_size: give either batch_size or global_batch_size")
        if sizes.count(None) != 2:
            raise ValueError("batch: lengths decide how many samples a batch has; remove batch_size")
        self._check_batch()
        if self.balance:
            self._check_balance()
        starts = [mixture.at for mixture in self.mixture]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise ValueError(f"mixture: the `at` of a schedule must start at 0 and increase, not {starts}")
        for mixture, following in pairwise(self.mixture):
            if mixture.until is not None and mixture.until >= following.at:
                raise ValueError(f"mixture: `until: {mixture.until}` must come before the next `at`, {following.at}")
        if self.rounds is not None and len(starts) > 1:
            raise ValueError("mixture: rounds are the mixture of the whole run; remove the others from the list")
        if self.rounds is not None and self.passes is not None:
            raise ValueError("passes: a finite run has no mixture; remove `passes` or `mixture: rounds`")
        if self.lanes > 1 and (self.rounds is not None or not self.shuffle):
            order = "`shuffle: false`" if self.rounds is None else "`mixture: rounds`"
            raise ValueError(f"lanes: {order} is one order of all items, without lanes; remove one of the two keys")
        beside = {"lanes": self.lanes > 1, "passes": self.passes is not None, "mixture": self.rounds is not None}
        if self.whole_epochs and any(beside.values()):
            key = next(key for key, given in beside.items() if given)
            raise ValueError(f"whole_epochs: not allowed next to `{key}`; remove one of the two keys")
        return self

    def _check_balance(self) -> None:
        for key, is_given in {"batch": self.batch is not None, "passes": self.passes is not None}.items():
            if is_given:
                raise ValueError(f"balance: is for endless runs of packs; remove it, or `{key}`")
        if self.lanes > 1:
            raise ValueError("balance: would give ranks of one lane the packs of another; remove it, or `lanes`")

    def _check_batch(self) -> None:
        if self.batch is None:
            return
        if not self.shuffle:
            raise ValueError("batch: sorting by length ends file order; remove `shuffle: false`, or use batch_size")
        if self.rounds is not None and self.rounds.repeat > 1:
            raise ValueError("batch: lengths would part the repeats of a sample; remove `repeat`, or use batch_size")
        if self.drop_last:
            raise ValueError("drop_last: batches by length have no incomplete last batch; remove it")

    @property
    def rounds(self) -> RoundsConfig | None:
        """The rounds of the run; None if it has weights."""
        return self.mixture[0].rounds


class Config(Run):
    """One training run, checked. The keys are those of the YAML file; relative paths are relative to that file.

    Attributes:
        recipe: Pipeline of sources that name none.
        batch_size: Samples per rank. ``global_batch_size`` instead keeps global batches the same on any world.
        batch: Batches by length instead: the budget of a unit, which is what a rank takes at a time.
        cache: Node cache for data of remote stores; a local folder is read in place.
        indexes: Where ``penstock index --to`` has put the indexes of the run. By default each node makes its own.
        prefetch: Fetching ahead from remote stores.
        usage: Usage ledger. By default none.
        metrics: Metrics for Prometheus over HTTP. By default none.
        pool: Resident groups per source and lane; with ``{total: N}``, over all sources of a lane, shared by weight.
        shuffle: Whether the items of a source are shuffled by its pool. Otherwise they come in file order.
        whole_epochs: Whether batches end with each epoch of the only source. The last batch of an epoch may be short.
        mixture: One mixture, or a list of mixtures with the sample ``at`` which each begins; or ``rounds``.
        exclude: Items that are no longer drawn from the sample ``at`` of their entry on.
        passes: Number of passes over every item, without weights. None for an endless run.
        drop_last: Whether to drop the last, incomplete batch of a finite run instead of padding it.
        uneven: Whether to allow a global batch size that is not a multiple of the number of ranks.
        balance: Whether to deal the packs of a step to ranks by what attention costs, instead of in order.
        on_error: Action for a sample that cannot be decoded: substitute another of its chunk, or raise.
        max_bad: Share of bad samples above which a run stops. Checked from 1,000 samples on.
        fields: Fields of the batches that a loader returns. None for all.
        sources: Sources of data, in order. In the file ``sources:``, a list of ``{name, recipe, …}``, or for a single
            source its keys at the top level (``filelist`` or ``manifest``, ``store``, ``remote``).
        options: Sections of all pipelines by name, such as ``speech:`` in the file.
        pipelines: All pipelines by name. In the file ``pipelines: {name: "module:Class"}`` adds to them.
    """

    sources: tuple[SourceEntry, ...] = ()
    options: dict[str, SerializeAsAny[BaseModel]] = Field(default_factory=dict)
    pipelines: dict[str, Any] = Field(default_factory=dict)
