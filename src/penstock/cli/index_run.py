"""``penstock index`` of a run: indexes its sources, cleans what is stored, and publishes it in a bucket."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from penstock.cli.console import Terminal, counted
from penstock.cli.progress import Progress
from penstock.config import Config, ConfigError, load_config
from penstock.feed.opening import open_context, resolve
from penstock.manifest.errors import ManifestError
from penstock.pipelines import PIPELINES
from penstock.pipelines.pipeline import Context, Indexing, Part, optional_methods
from penstock.readers.publishedshelf import publish
from penstock.readers.shelf import clean as clean_shelf
from penstock.recipes.recipe import Recipe
from penstock.runtime.engines.engine import ALL
from penstock.store.cache.maintenance import INDEXES
from penstock.store.remote.opening import open_writable
from penstock.store.remote.options import StoreOptions


def clean_indexes(path: Path) -> None:
    with Progress("cleaning") as shown:
        removed = clean_shelf(open_context(load_config(path, PIPELINES)).scratch / INDEXES, shown.update)
    Terminal().print(f"{decimal(removed)} of stored indexes removed", soft_wrap=True)


def index_run(path: Path, how: Indexing, to: str | None, options: StoreOptions) -> None:
    """Index all sources of a run, or the share of a job, and report all problems at the end.

    Args:
        path: YAML file of the run.
        how: How to index.
        to: Folder or bucket to upload the index to; None to keep it here only.
        options: Access to that bucket.
    """
    if to is not None:
        open_writable(to, options)  # before anything is read
    config = load_config(path, PIPELINES)
    context = open_context(config)
    names = dict.fromkeys(entry.recipe for entry in config.sources)
    if how.keep_tokens and not any(optional_methods(config.pipelines[name]).keeps_tokens for name in names):
        raise ValueError(f"--tokens: {path} has no text to tokenize (recipe {', '.join(names)}); remove the option")
    spread = [name for name in names if optional_methods(config.pipelines[name]).prepares]
    if not spread and (how.engine or how.share != ALL):
        raise ValueError(
            f"--engine ray, --shard: {path} has little to index (recipe {', '.join(names)}); leave them out"
        )
    recipes = {name: config.pipelines[name].recipe(config.options[name]) for name in names}
    resolved = resolve(config)
    wrong = []
    _index_at_once(config, context, recipes, resolved, how)
    if how.share != ALL:
        Terminal().print(
            f"job {how.share} has indexed its share; when all jobs have, run the same command without --shard",
            soft_wrap=True,
        )
        return
    for number, (entry, found) in enumerate(zip(config.sources, resolved, strict=True)):
        pipeline = optional_methods(config.pipelines[entry.recipe])
        name = entry.name or (entry.recipe if len(config.sources) == 1 else f"source {number}")
        if not pipeline.indexes:
            raise ConfigError(
                f"{path}: a run of recipe {entry.recipe!r} has nothing to index; index tar shards with  "
                "penstock index URL… -o FOLDER"
            )
        try:
            with Progress(f"indexing {name}") as shown:
                own = context._replace(name=entry.name, resolved=found)
                line = pipeline.index(entry.keys, recipes[entry.recipe], own, how._replace(progress=shown.update))
            Terminal().print(f"{name}: {line}", soft_wrap=True)
        except (ManifestError, ConfigError) as error:
            wrong.append(f"{name}: {error}")
    wrong += _misfits(config, context, recipes, resolved)
    if wrong:
        raise ManifestError("\n".join(wrong))
    if to is not None:
        _publish(context, to, options)


def _publish(context: Context, to: str, options: StoreOptions) -> None:
    with Progress("uploading") as shown:
        done = publish(context.scratch / INDEXES, context.stores.identities(), to, options, shown.update)
    Terminal().print(
        f"{to}: {counted(done.files, 'file')}, {decimal(done.size)}; {done.uploaded:,} uploaded\n"
        f"use it on any node with  indexes: {{store: {to}}}",
        soft_wrap=True,
    )


def _index_at_once(
    config: Config, context: Context, recipes: Mapping[str, Recipe[Any]], resolved: Sequence[Any], how: Indexing
) -> None:
    """Index what takes long of all sources of a recipe at the same time."""
    for name, recipe in recipes.items():
        pipeline = optional_methods(config.pipelines[name])
        if not pipeline.prepares:
            continue
        own = [(entry, found) for entry, found in zip(config.sources, resolved, strict=True) if entry.recipe == name]
        contexts = [context._replace(name=entry.name, resolved=found) for entry, found in own]
        with Progress("indexing") as shown:
            pipeline.prepare([entry.keys for entry, _ in own], recipe, contexts, how._replace(progress=shown.update))


def no_progress(done: int, total: int | None, note: str) -> None:
    pass


def _misfits(
    config: Config, context: Context, recipes: Mapping[str, Recipe[Any]], resolved: Sequence[Any]
) -> list[str]:
    """Return the reasons why sources of a recipe cannot be used together."""
    wrong = []
    for name, recipe in recipes.items():
        pipeline = optional_methods(config.pipelines[name])
        if not pipeline.joins:
            continue
        parts = []
        try:
            for entry, found in zip(config.sources, resolved, strict=True):
                if entry.recipe == name:
                    own = context._replace(name=entry.name, resolved=found)
                    manifest, reader = config.pipelines[name].open(entry.keys, recipe.needs, own)
                    parts.append(Part(entry.name, manifest, reader, name))
            pipeline.join(recipe, parts)
        except ConfigError as error:
            wrong.append(str(error))
        except ManifestError:  # of one source, and already reported
            pass
    return wrong
