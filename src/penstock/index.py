"""The indexes of a run as tasks, for an engine of your own: ``tasks``, ``make`` and ``finish``. See docs/scale.md."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from penstock.config import Config, ConfigError, SourceEntry
from penstock.feed.open_feed import checked_config
from penstock.feed.opening import open_context, resolve
from penstock.manifest.errors import ManifestError
from penstock.pipelines.pipeline import BasePipeline, Context, Indexing, Part, optional_methods
from penstock.readers.indextasks import IndexResult, IndexTask, keep, make
from penstock.recipes.recipe import Recipe
from penstock.store.cache.maintenance import INDEXES

__all__ = ["IndexResult", "IndexTask", "finish", "make", "tasks"]


def tasks(config: str | PathLike[str] | Mapping[str, Any], *, tokens: bool | None = None) -> Iterator[IndexTask]:
    """Yield what is missing of the indexes of a run.

    A task pickles, and any process on any machine can make it that has access to the data, and to the tokenizer by the
    same name.

    Args:
        config: Path of a YAML file, or a mapping with the same keys.
        tokens: Whether to keep tokens, as ``penstock index --tokens``; by default those that are counted.

    Raises:
        ConfigError: One line per problem, each naming the key.

    Examples:
        >>> from penstock import index
        >>> def count_parts(config):
        ...     return sum(task.parts for task in index.tasks(config))
    """
    return IndexedRun(checked_config(config)).tasks(_how(tokens))


def finish(
    config: str | PathLike[str] | Mapping[str, Any], results: Iterable[IndexResult] = (), *, tokens: bool | None = None
) -> dict[str, str]:
    """Keep results of tasks in the cache folder of a run, and complete its indexes there.

    Results are kept as they come: after an error, ``tasks`` yields only the rest. What no task has made is made by this
    process.

    Args:
        config: As for ``tasks``.
        results: What ``make`` returned for the tasks, in any order.
        tokens: As for ``tasks``.

    Returns:
        A one-line summary per source.

    Raises:
        ManifestError: One line per problem of the data.
        ConfigError: One line per problem of the config, each naming the key.

    Examples:
        >>> from penstock import index
        >>> def prepare(config):
        ...     return index.finish(config, map(index.make, index.tasks(config)))
    """
    run = IndexedRun(checked_config(config))
    for result in results:
        run.keep(result)
    how = _how(tokens)
    lines = {}
    wrong = []
    for source in run.sources():
        try:
            lines[source.name] = source.index(how)
        except (ManifestError, ConfigError) as error:
            wrong.append(f"{source.name}: {error}")
    wrong += run.misfits()
    if wrong:
        raise ManifestError("\n".join(wrong))
    return lines


def _how(tokens: bool | None) -> Indexing:
    return Indexing(lambda *_: None, 0, tokens)


@dataclass(frozen=True)
class _SourceToIndex:
    """An entry of ``sources``, with what its pipeline needs to index it."""

    name: str
    keys: Any
    pipeline: BasePipeline[Any, Any]
    recipe: Recipe[Any]
    context: Context

    def index(self, how: Indexing) -> str:
        """Index the source, and return a one-line summary.

        Raises:
            ManifestError: One line per problem of the data.
        """
        return self.pipeline.index(self.keys, self.recipe, self.context, how)


class IndexedRun:
    """A run whose sources are indexed: by tasks, or in this process.

    Args:
        config: Checked configuration of the run.

    Attributes:
        config: Checked configuration of the run.
        context: What pipelines need to open the sources.
        pipelines: Pipelines of the run, by name.

    Raises:
        ConfigError: If a source cannot be found, or its recipe has nothing to index.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.context = open_context(config)
        self.pipelines = {
            name: optional_methods(config.pipelines[name])
            for name in dict.fromkeys(entry.recipe for entry in config.sources)
        }
        nothing = next((name for name, pipeline in self.pipelines.items() if not pipeline.indexes), None)
        if nothing is not None:
            raise ConfigError(
                f"a run of recipe {nothing!r} has nothing to index; index its shards with  "
                "penstock index URL… -o FOLDER"
            )
        self._recipes = {name: config.pipelines[name].recipe(config.options[name]) for name in self.pipelines}
        self._contexts = [
            self.context._replace(name=entry.name, resolved=found)
            for entry, found in zip(config.sources, resolve(config), strict=True)
        ]

    def sources(self) -> list[_SourceToIndex]:
        """Return all entries of ``sources``."""
        return [
            _SourceToIndex(
                self._name(number, entry),
                entry.keys,
                self.pipelines[entry.recipe],
                self._recipes[entry.recipe],
                self._contexts[number],
            )
            for number, entry in enumerate(self.config.sources)
        ]

    def _name(self, number: int, entry: SourceEntry) -> str:
        return entry.name or (entry.recipe if len(self.config.sources) == 1 else f"source {number}")

    def _of(self, recipe: str) -> tuple[list[Any], Recipe[Any], list[Context]]:
        """Return what ``BasePipeline.prepare`` needs of all sources of a recipe."""
        numbers = [number for number, entry in enumerate(self.config.sources) if entry.recipe == recipe]
        keys = [self.config.sources[number].keys for number in numbers]
        return keys, self._recipes[recipe], [self._contexts[number] for number in numbers]

    def tasks(self, how: Indexing) -> Iterator[IndexTask]:
        """Yield what is missing of the indexes."""
        for name, pipeline in self.pipelines.items():
            yield from pipeline.index_tasks(*self._of(name), how)

    def keep(self, result: IndexResult) -> None:
        """Keep what a task has made."""
        keep(self.context.scratch / INDEXES, result)

    def prepare(self, how: Indexing) -> None:
        """Index what takes long of all sources of a recipe at the same time, with processes of this machine."""
        for name, pipeline in self.pipelines.items():
            if pipeline.prepares:
                pipeline.prepare(*self._of(name), how)

    def misfits(self) -> list[str]:
        """Return the reasons why sources of a recipe cannot be used together."""
        wrong = []
        for name, pipeline in self.pipelines.items():
            if not pipeline.joins:
                continue
            parts = []
            try:
                keys, recipe, contexts = self._of(name)
                for each, context in zip(keys, contexts, strict=True):
                    manifest, reader = self.config.pipelines[name].open(each, recipe.needs, context)
                    parts.append(Part(context.name, manifest, reader, name))
                pipeline.join(recipe, parts)
            except ConfigError as error:
                wrong.append(str(error))
            except ManifestError:  # of one source, and already reported
                pass
        return wrong
