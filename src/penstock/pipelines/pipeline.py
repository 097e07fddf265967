"""The pipeline protocol: its keys in a config, and opening what they describe. Knows no format and no plan."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel

from penstock.config import StoreKeys
from penstock.manifest.manifest import Manifest
from penstock.readers.reader import Reader
from penstock.recipes.recipe import Recipe
from penstock.store.blob import Store
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo
from penstock.store.stores import Known, Stores


class Part(NamedTuple):
    """What one entry of ``sources`` adds to a run.

    Attributes:
        name: the name that the config gives it; empty if the sources keep their names of the manifest.
        manifest: its sources, groups and sizes.
        reader: reads its items.
        recipe: the name of the recipe that makes batches of its items.
    """

    name: str
    manifest: Manifest
    reader: Reader[Any, Any]
    recipe: str

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of its sources in the run: as the manifest names them, or after the entry of the config."""
        own = self.manifest.sources
        if not self.name:
            return own
        return (self.name,) if len(own) == 1 else tuple(f"{self.name}/{name}" for name in own)


def _nothing_known(url: str) -> Mapping[str, ObjectInfo]:  # noqa: ARG001
    return {}


class Context(NamedTuple):
    """What a pipeline needs to open a part.

    Attributes:
        stores: opens stores; all remote stores share one node cache.
        scratch: a folder for data that is kept between runs, such as indexes.
        seed: the seed of the run.
        needs_sizes: whether all groups and their sizes must be known at the start. If not, as in file order, a
            manifest may be a ``GrowingManifest``, whose index is made while the run goes on.
        pool: groups that are resident at a time, if the config says so; None for ``auto``.
        weighed_by: units by which the mixture weighs sources: they have to be known of all of them.
        name: that the config gives the entry which is opened; it may be empty.
        resolved: what ``Resolving.resolve`` returned for the entry that is opened.
    """

    stores: Stores
    scratch: Path
    seed: int
    needs_sizes: bool = True
    pool: int | None = None
    weighed_by: tuple[str, ...] = ()
    name: str = ""
    resolved: Any = None

    def opener(self, source: StoreKeys, known: Known = _nothing_known) -> Callable[[], Store]:
        """Return a function that opens the store of an entry of ``sources``. It pickles, so a reader can keep it.

        Args:
            source: the entry.
            known: returns sizes and versions of objects of a store URL, which then need not be requested.
        """
        return partial(self.stores.open, source.store, StoreOptions(**source.remote.model_dump()), known)


class Pipeline(Protocol):
    """One kind of data and its recipe. Pass your own as ``penstock.open(…, pipelines={name: …})``.

    A pipeline, its recipe and its readers must pickle by import path, for worker processes.

    Attributes:
        options: the pydantic model of its section in the config; the section has the name of the pipeline.
        source: the pydantic model of its keys in an entry of ``sources``, in addition to ``name`` and ``recipe``.
    """

    @property
    def options(self) -> type[BaseModel]: ...

    @property
    def source(self) -> type[BaseModel]: ...

    def recipe(self, options: Any) -> Recipe[Any]:
        """Return the recipe. Called once per run.

        Args:
            options: the section of the config, as an instance of ``self.options``.
        """
        ...

    def open(self, source: Any, needs: Any, context: Context) -> tuple[Manifest, Reader[Any, Any]]:
        """Open an entry of ``sources``.

        It should read metadata only. Where the order needs all sizes (``context.needs_sizes``) and no metadata has
        them, it may read all of the data once, and keep what it learnt in ``context.scratch``; chat does so. It then
        shows how far it is.

        Args:
            source: the entry, as an instance of ``self.source``.
            needs: what the recipe reads of an item (``Recipe.needs``).
            context: stores, a folder for indexes, and the seed.

        Returns:
            The manifest of the entry, and the reader of its items.
        """
        ...


@runtime_checkable
class Resolving(Protocol):
    """A pipeline that has to find out where its data are. It is optional.

    All entries of a run are resolved before the first is opened, which may take long, so that all that is wrong with
    them is reported at once.
    """

    def resolve(self, source: Any) -> Any:
        """Find the data of an entry of ``sources``. Several entries are resolved at the same time.

        Args:
            source: the entry, as an instance of ``Pipeline.source``.

        Returns:
            What ``open`` gets as ``context.resolved``.

        Raises:
            ConfigError: If there are no such data; says what to do.
            OSError: If they can't be reached.
        """
        ...


class Indexing(NamedTuple):
    """How to index.

    Attributes:
        progress: called with what is done, what there is (None: not known), and a note.
        workers: processes that may be used.
        keep_tokens: whether what was tokenized is kept, where there is text.
        anew: whether videos may differ from those that were indexed before.
    """

    progress: Callable[[int, int | None, str], None]
    workers: int
    keep_tokens: bool = False
    anew: bool = False


@runtime_checkable
class Indexable(Protocol):
    """A pipeline whose runs learn something about the data on their way, which can be learnt beforehand. Optional."""

    def index(self, source: Any, recipe: Any, context: Context, how: Indexing) -> str:
        """Learn what runs need to know of an entry of ``sources``, and keep it for them.

        Args:
            source: the entry, as an instance of ``Pipeline.source``.
            recipe: what ``Pipeline.recipe`` returned.
            context: as for ``Pipeline.open``.
            how: progress, and how much to learn.

        Returns:
            A line for people: what there is.

        Raises:
            ManifestError: All that is wrong with the data.
        """
        ...


@runtime_checkable
class KeepsTokens(Protocol):
    """An indexable pipeline of text, which looks at ``Indexing.keep_tokens``. It is optional.

    Attributes:
        keeps_tokens: whether it can keep tokens.
    """

    @property
    def keeps_tokens(self) -> bool: ...


@runtime_checkable
class Joining(Protocol):
    """A pipeline whose sources have to fit together. It is optional."""

    def join(self, recipe: Any, parts: Sequence[Part]) -> None:
        """Tell the recipe what its sources have, after all of them were opened.

        Args:
            recipe: what ``Pipeline.recipe`` returned.
            parts: all entries of ``sources`` with this recipe.

        Raises:
            ConfigError: If batches can't hold samples of all of them.
        """
        ...
