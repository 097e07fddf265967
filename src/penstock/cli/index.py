"""``penstock index``: indexes the data of a run, or writes the manifest of tar shards."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from penstock.cli.console import Terminal, counted
from penstock.cli.engines import EngineName, OfShard, WithEngine, Workers, open_engine, parse_share
from penstock.cli.options import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.progress import Progress
from penstock.cli.shards import Shards, named_shards
from penstock.config import Config, ConfigError, load_config
from penstock.feed.opening import open_context, resolve
from penstock.manifest.errors import ManifestError
from penstock.manifest.manifest import UNITS, spoken_hours
from penstock.pipelines import PIPELINES
from penstock.pipelines.pipeline import Context, Indexing, Part, optional_methods
from penstock.readers.shelf import clean as clean_shelf
from penstock.readers.sidecars import TextPlace
from penstock.readers.tar.described import read_nemo, read_shar
from penstock.readers.tar.filelist import read_filelist
from penstock.readers.tar.index import TarIndexing
from penstock.readers.tar.writer import ItemTable
from penstock.recipes.recipe import Recipe
from penstock.store.cache.maintenance import INDEXES
from penstock.store.remote.options import StoreOptions


def index(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG | URL…",
            help="YAML file of a run; or tar shards, or folders or prefixes that contain them.",
        ),
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Output manifest (tar shards only).")] = None,
    store: Annotated[
        str | None, typer.Option(help="Folder or URL that shard paths are relative to (tar shards only).")
    ] = None,
    filelist: Annotated[
        Path | None,
        typer.Option(help="Filelist of the items to index, with languages and durations (tar shards only)."),
    ] = None,
    nemo: Annotated[
        list[Path] | None,
        typer.Option(help="Manifest of a NeMo tarred dataset, in place of --filelist; may be repeated."),
    ] = None,
    shar: Annotated[
        bool, typer.Option("--shar", help="The tar shards are Lhotse Shar data, with their cuts beside them.")
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Leave out clips without a text, ID.txt (tar shards only).")
    ] = False,
    text_field: Annotated[
        str | None, typer.Option(help="Leave out clips without this text field in ID.json (tar shards only).")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Number of shards to read at once (tar shards only).")] = 8,
    workers: Workers = None,
    engine: WithEngine = EngineName.local,
    shard: OfShard = None,
    tokens: Annotated[
        bool | None,
        typer.Option(
            "--tokens/--no-tokens",
            help="Whether to store tokens, so that text is tokenized only once (runs with text only). By default those "
            "that are counted, as for packs, while a tenth of the disk is free.",
        ),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Accept videos that changed since they were indexed (runs with videos only).")
    ] = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Then remove stored indexes of files that have changed or are gone, and those that no run has used "
            "for 30 days (runs only).",
        ),
    ] = False,
    sha256: Annotated[
        bool, typer.Option("--sha256", help="Also record the SHA-256 of all content, for `penstock receipt`.")
    ] = False,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Check and index data once, so that runs start without reading it."""
    if len(what) == 1 and Path(what[0]).suffix in (".yaml", ".yml"):
        for_shards = {"-o": out, "--store": store, "--filelist": filelist, "--shard": shard, "--nemo": nemo}
        if given := [option for option, value in for_shards.items() if value is not None]:
            raise ValueError(
                f"{', '.join(given)}: only for tar shards; the index of a run is stored in its cache folder"
            )
        _index_run(Path(what[0]), len(os.sched_getaffinity(0)) if workers is None else workers, tokens, anew, sha256)
        if clean:
            _clean(Path(what[0]))
        return
    for_runs = {"--tokens": tokens is not None, "--anew": anew, "--clean": clean}
    if unused := [option for option, is_given in for_runs.items() if is_given]:
        raise ValueError(f"{', '.join(unused)}: only for the YAML file of a run, not for tar shards")
    if out is None:
        raise ValueError("add -o FOLDER for the manifest of tar shards, or give the YAML file of a run")
    shards = named_shards(what, store, StoreOptions(endpoint, region, anonymous, requests_per_second))
    share = parse_share(shard)
    described = [str(path) for path in (filelist, *(nemo or ())) if path is not None]
    rows, left_out = _rows(shards, filelist, nemo or [], shar, text, text_field)
    indexing = TarIndexing(
        shards.store,
        shards.paths,
        out,
        rows=rows,
        text=TextPlace(text_field) if rows is None and (text or text_field) else None,
        name=next(iter(described), ""),
        sha256=sha256,
        versions=shards.versions,
    )
    count = len(share.of(indexing.paths))
    size = shards.size // share.jobs
    with Progress("indexing") as shown:

        def progress(done: int, total: int, size: int) -> None:
            shown.update(done, total, decimal(size))

        indexing.run(
            open_engine(engine, workers, size=size, tasks=count, at_once=threads), share=share, progress=progress
        )
    if shard is not None:
        Terminal().print(
            f"{out}: job {share} has read its {counted(count, 'shard')}; when all jobs have, run the same command "
            "without --shard",
            soft_wrap=True,
        )
        return
    manifest = indexing.finish()
    hours = sum(manifest.amounts["hours"]) / UNITS["hours"]
    time = spoken_hours(hours) if hours else "of unknown duration"
    left_out += indexing.without_text
    if left_out:
        Terminal().print(f"{counted(left_out, 'clip')} without a text left out", soft_wrap=True)
    Terminal().print(
        f"{out}: {len(manifest):,} items in {manifest.shard_count:,} shards, {len(manifest.sources)} sources, "
        f"{time}\nuse it with  manifest: {out}  and  store: {shards.root}",
        soft_wrap=True,
    )


def _rows(
    shards: Shards, filelist: Path | None, nemo: list[Path], shar: bool, text: bool, text_field: str | None
) -> tuple[ItemTable | None, int]:
    """Return the samples to index, None for all, and how many were left out."""
    if (filelist is not None) + bool(nemo) + shar > 1:
        raise ValueError("--filelist, --nemo, --shar: give one of them")
    if text and text_field:
        raise ValueError("--text, --text-field: give one of them")
    if filelist is not None and (text or text_field):
        raise ValueError("--text, --text-field: a filelist names the clips; leave those without a text out of it")
    if text and (nemo or shar):
        raise ValueError("--text: texts are in the manifest, not in files; write --text-field text")
    if nemo:
        return read_nemo(nemo, shards.paths, text_field)
    if shar:
        return read_shar(shards.store, shards.paths, text_field)
    return (None if filelist is None else read_filelist(filelist, known_shards=shards.paths)), 0


def _clean(path: Path) -> None:
    with Progress("cleaning") as shown:
        removed = clean_shelf(open_context(load_config(path, PIPELINES)).scratch / INDEXES, shown.update)
    Terminal().print(f"{decimal(removed)} of stored indexes removed", soft_wrap=True)


def _index_run(path: Path, workers: int, tokens: bool | None, anew: bool, sha256: bool) -> None:
    """Index all sources of a run, and report all problems at the end."""
    config = load_config(path, PIPELINES)
    context = open_context(config)
    names = dict.fromkeys(entry.recipe for entry in config.sources)
    if tokens and not any(optional_methods(config.pipelines[name]).keeps_tokens for name in names):
        raise ValueError(f"--tokens: {path} has no text to tokenize (recipe {', '.join(names)}); remove the option")
    recipes = {name: config.pipelines[name].recipe(config.options[name]) for name in names}
    resolved = resolve(config)
    wrong = []
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
                how = Indexing(shown.update, workers, tokens, anew, sha256)
                own = context._replace(name=entry.name, resolved=found)
                line = pipeline.index(entry.keys, recipes[entry.recipe], own, how)
            Terminal().print(f"{name}: {line}", soft_wrap=True)
        except (ManifestError, ConfigError) as error:
            wrong.append(f"{name}: {error}")
    wrong += _misfits(config, context, recipes, resolved)
    if wrong:
        raise ManifestError("\n".join(wrong))


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
