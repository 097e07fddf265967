"""The pipeline protocol: its keys in a config, and opening what they describe. Knows no format and no plan."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel

from penstock.config import ConfigError, StoreKeys
from penstock.manifest.manifest import Manifest
from penstock.readers.indextasks import IndexTask
from penstock.readers.reader import Reader
from penstock.recipes.recipe import Recipe
from penstock.runtime.engines.engine import ALL, JobShare
from penstock.store.blob import Store
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo
from penstock.store.stores import Known, Stores

Options = TypeVar("Options", bound=BaseModel)
Keys = TypeVar("Keys", bound=BaseModel)
R = TypeVar("R", bound=Recipe[Any])
R_co = TypeVar("R_co", bound=Recipe[Any], covariant=True)


class Part(NamedTuple):
    """What one entry of ``sources`` adds to a run.

    Attributes:
        name: Name in the config; empty if the sources keep their names of the manifest.
        manifest: Sources, groups and sizes.
        reader: Reader of the items.
        recipe: Name of the recipe that makes batches of the items.
        at: First sample of the run that may draw from it.
    """

    name: str
    manifest: Manifest
    reader: Reader[Any, Any]
    recipe: str
    at: int = 0

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of its sources in the run, from the manifest or the config."""
        own = self.manifest.sources
        if not self.name:
            return own
        return (self.name,) if len(own) == 1 else tuple(f"{self.name}/{name}" for name in own)


def _nothing_known(url: str) -> Mapping[str, ObjectInfo]:  # noqa: ARG001
    return {}


class Context(NamedTuple):
    """What a pipeline needs to open a part.

    Attributes:
        stores: Stores of the run; all remote stores share one node cache.
        scratch: Folder for data that is kept between runs, such as indexes.
        seed: Seed of the run.
        needs_sizes: Whether all groups and their sizes must be known at the start. If not, as in file order, a
            manifest may be a ``GrowingManifest``, whose index is made during the run.
        pool: Number of resident groups in the config; None for ``auto``.
        weighed_by: Units by which the mixture weights sources, and ``tokens`` for batches with a budget of tokens.
        name: Name of the entry in the config; may be empty.
        resolved: What ``BasePipeline.resolve`` returned for the entry.
        prepared: What ``BasePipeline.prepare`` returned for the entry.

    Examples:
        >>> import penstock
        >>> def file_size(source: penstock.StoreKeys, context: penstock.Context) -> int:
        ...     open_store = context.opener(source)  # pickles, so a reader can keep it
        ...     return open_store().open("captions.jsonl").size
    """

    stores: Stores
    scratch: Path
    seed: int
    needs_sizes: bool = True
    pool: int | None = None
    weighed_by: tuple[str, ...] = ()
    name: str = ""
    resolved: Any = None
    prepared: Any = None

    def opener(self, source: StoreKeys, known: Known = _nothing_known) -> Callable[[], Store]:
        """Return a function that opens the store of an entry of ``sources``. It pickles, so a reader can keep it.

        Args:
            source: Entry of ``sources``.
            known: Function from a store URL to sizes and versions of its objects, which then need not be requested.
        """
        return partial(self.stores.open, source.store, StoreOptions(**source.remote.model_dump()), known)


class Indexing(NamedTuple):
    """How to index.

    Attributes:
        progress: Called with the amount done, the total (None if unknown) and a note.
        workers: Maximum number of processes.
        keep_tokens: Whether to keep tokens, where there is text; None to keep those that are counted anyway.
        anew: Whether videos may differ from those indexed before.
        sha256: Whether to also record the SHA-256 of all content.
        share: Tasks of this job, if there are several.
    """

    progress: Callable[[int, int | None, str], None]
    workers: int
    keep_tokens: bool | None = None
    anew: bool = False
    sha256: bool = False
    share: JobShare = ALL


class Pipeline(Protocol[Options, Keys, R_co]):
    """One kind of data and its recipe. Pass your own as ``penstock.open(…, pipelines={name: …})``.

    A pipeline, its recipe and its readers must pickle by import path, for worker processes. ``BasePipeline`` declares
    what a pipeline may have in addition.

    Attributes:
        options: Pydantic model of its section in the config; the section has the name of the pipeline.
        source: Pydantic model of its keys in an entry of ``sources``, in addition to ``name`` and ``recipe``.

    Examples:
        >>> import penstock
        >>> class Captions:
        ...     options = penstock.Strict
        ...     source = penstock.StoreKeys
        ...     def recipe(self, options):
        ...         return CaptionRecipe()
        ...     def open(self, source, needs, context):
        ...         return caption_manifest(source), CaptionReader(context.opener(source))
    """

    @property
    def options(self) -> type[Options]: ...

    @property
    def source(self) -> type[Keys]: ...

    def recipe(self, options: Options, /) -> R_co:
        """Return the recipe. Called once per run.

        Args:
            options: Section of the config.
        """
        ...

    def open(self, source: Keys, needs: Any, context: Context, /) -> tuple[Manifest, Reader[Any, Any]]:
        """Open an entry of ``sources``.

        It should read metadata only. Where the order needs all sizes (``context.needs_sizes``) and no metadata has
        them, it may read all of the data once, and keep what it learnt in ``context.scratch``; chat does so. It then
        shows its progress.

        Args:
            source: Entry of ``sources``.
            needs: What the recipe reads of an item (``Recipe.needs``).
            context: Stores, a folder for indexes, and the seed.

        Returns:
            The manifest of the entry, and the reader of its items.
        """
        ...


AnyPipeline = Pipeline[Any, Any, Any]


class BasePipeline(Generic[Keys, R]):
    """Optional methods of a pipeline, with defaults. Inherit from it to override one.

    Attributes:
        keeps_tokens: Whether ``index`` can keep tokens (``Indexing.keep_tokens``).
    """

    keeps_tokens: bool = False

    @property
    def indexes(self) -> bool:
        """Whether the pipeline overrides ``index``."""
        return type(self).index is not BasePipeline.index

    @property
    def joins(self) -> bool:
        """Whether the pipeline overrides ``join``."""
        return type(self).join is not BasePipeline.join

    def resolve(self, source: Keys, /) -> Any:  # noqa: ARG002
        """Find the data of an entry of ``sources``. By default there is nothing to find.

        All entries of a run are resolved before the first is opened, several at the same time, so that all problems
        are reported at once.

        Args:
            source: Entry of ``sources``.

        Returns:
            What ``Pipeline.open`` gets as ``context.resolved``.

        Raises:
            ConfigError: If there is no such data; the message says what to do.
            OSError: If it can't be reached.
        """
        return None

    @property
    def prepares(self) -> bool:
        """Whether the pipeline overrides ``prepare``."""
        return type(self).prepare is not BasePipeline.prepare

    def prepare(
        self,
        sources: Sequence[Keys],
        recipe: R,  # noqa: ARG002
        contexts: Sequence[Context],  # noqa: ARG002
        how: Indexing | None,  # noqa: ARG002
        /,
    ) -> Sequence[Any]:
        """Learn what runs need to know of several entries of ``sources`` at once. By default nothing is learnt.

        Args:
            sources: Entries of ``sources``.
            recipe: What ``Pipeline.recipe`` returned.
            contexts: As for ``Pipeline.open``, one per entry.
            how: Progress, and how much to learn; None for what opening a run needs.

        Returns:
            What ``Pipeline.open`` gets as ``context.prepared``, one per entry.
        """
        return [None] * len(sources)

    @property
    def has_tasks(self) -> bool:
        """Whether the pipeline overrides ``index_tasks``."""
        return type(self).index_tasks is not BasePipeline.index_tasks

    def index_tasks(
        self,
        sources: Sequence[Keys],  # noqa: ARG002
        recipe: R,  # noqa: ARG002
        contexts: Sequence[Context],  # noqa: ARG002
        how: Indexing,  # noqa: ARG002
        /,
    ) -> Iterable[IndexTask]:
        """Return what is missing of the indexes of several entries of ``sources``, as tasks that any process makes.

        The files that they make are those that ``index`` would write into the shelf, which then finds them. By default
        there are none.

        Args:
            sources: Entries of ``sources``.
            recipe: What ``Pipeline.recipe`` returned.
            contexts: As for ``Pipeline.open``, one per entry.
            how: How much to learn, and the share of this job.
        """
        return ()

    def index(self, source: Keys, recipe: R, context: Context, how: Indexing, /) -> str:  # noqa: ARG002
        """Learn what runs need to know of an entry of ``sources``, and keep it. By default there is nothing to learn.

        Args:
            source: Entry of ``sources``.
            recipe: What ``Pipeline.recipe`` returned.
            context: As for ``Pipeline.open``.
            how: Progress, and how much to learn.

        Returns:
            A one-line summary.

        Raises:
            ManifestError: One line per problem of the data.
        """
        return ""

    def join(self, recipe: R, parts: Sequence[Part], /) -> None:  # noqa: ARG002
        """Hand all opened sources to the recipe, which have to fit together. By default nothing is done.

        Args:
            recipe: What ``Pipeline.recipe`` returned.
            parts: All entries of ``sources`` with this recipe.

        Raises:
            ConfigError: If batches can't hold samples of all of them.
        """
        return None


_DEFAULTS: BasePipeline[Any, Any] = BasePipeline()
_OPTIONAL_METHODS = ("resolve", "prepare", "index_tasks", "index", "join")


def optional_methods(pipeline: AnyPipeline | BasePipeline[Any, Any]) -> BasePipeline[Any, Any]:
    """Return the pipeline itself if it is a ``BasePipeline``, else the defaults.

    Raises:
        ConfigError: If the pipeline has an optional method that it does not declare.
    """
    if isinstance(pipeline, BasePipeline):
        return pipeline
    undeclared = [f"`{name}`" for name in _OPTIONAL_METHODS if hasattr(pipeline, name)]
    if undeclared:
        raise ConfigError(
            f"the pipeline {type(pipeline).__name__} has the optional method {', '.join(undeclared)}, which is only "
            "called if the class inherits from penstock.pipelines.BasePipeline; inherit from it, or rename the method"
        )
    return _DEFAULTS
