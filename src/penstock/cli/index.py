"""``penstock index``: indexes the data of a run, or writes the manifest of tar shards."""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Annotated, NamedTuple

import typer

from penstock.cli.console import Terminal, counted
from penstock.cli.engines import (
    Address,
    EngineName,
    OfShard,
    WithEngine,
    Workers,
    local_engine,
    parse_share,
    print_share_done,
    ray_engine,
)
from penstock.cli.index_run import clean_indexes, index_run, no_progress, upload
from penstock.cli.options import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.progress import Progress
from penstock.cli.shards import Shards, all_files, named_shards
from penstock.manifest.manifest import UNITS, spoken_hours
from penstock.pipelines.pipeline import Indexing
from penstock.pipelines.tar import PUBLISHED_MANIFEST
from penstock.readers.sidecars import TextPlace
from penstock.readers.tar.described import read_nemo, read_shar
from penstock.readers.tar.filelist import read_filelist
from penstock.readers.tar.index import TarIndexing
from penstock.readers.tar.loose import read_commonvoice, read_kaldi, read_librispeech
from penstock.readers.tar.loosefiles import LooseIndexing
from penstock.readers.tar.writer import ItemTable
from penstock.store.remote.opening import open_writable
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import local_path


def index(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG | URL…",
            help="YAML file of a run; or tar shards, or folders or prefixes that contain them; or a folder of loose "
            "files, with --librispeech, --commonvoice or --kaldi.",
        ),
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Output manifest (not for runs).")] = None,
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
    librispeech: Annotated[
        bool, typer.Option("--librispeech", help="The folder is LibriSpeech, or a subset of it: loose files.")
    ] = False,
    commonvoice: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TSV", help="Table of Common Voice in the folder, such as train.tsv, with clips beside it."
        ),
    ] = None,
    kaldi: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Kaldi data folder, whose wav.scp names loose files below the folder."),
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Leave out clips without a text, ID.txt (tar shards only).")
    ] = False,
    text_field: Annotated[
        str | None,
        typer.Option(help="Leave out clips without this text field, of ID.json or of a corpus."),
    ] = None,
    segments: Annotated[
        bool,
        typer.Option(
            "--segments",
            help="Make items of the segments that ID.json lists: segments: [{start, end, text}, …] (tar shards only).",
        ),
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Number of shards to read at once (tar shards only).")] = 8,
    workers: Workers = None,
    engine: WithEngine = EngineName.local,
    address: Address = None,
    shard: OfShard = None,
    tokens: Annotated[
        bool | None,
        typer.Option(
            "--tokens/--no-tokens",
            help="Store all tokens, so that text is tokenized only once (runs with text only). By default, tokens that "
            "are counted anyway, as for packs, are stored while a tenth of the disk is free.",
        ),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Accept videos that changed since they were indexed (runs with videos only).")
    ] = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Afterwards, remove stored indexes of files that have changed or are gone, and those that no run has "
            "used for 30 days (runs only).",
        ),
    ] = False,
    sha256: Annotated[
        bool, typer.Option("--sha256", help="Also record the SHA-256 of all content, for `penstock receipt`.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Afterwards, upload the index to a prefix of a bucket, or a folder, where runs on any node find it: "
            "the index of a run with `indexes: {store: URL}`, that of tar shards with `manifest: URL`.",
        ),
    ] = None,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Check and index data once, so that runs start without reading it."""
    on_cluster = ray_engine(engine, address, workers)
    options = StoreOptions(endpoint, region, anonymous, requests_per_second)
    if to is not None and shard is not None:
        raise ValueError("--to, --shard: when all jobs have made their shares, run it with --to and without --shard")
    if to is not None:
        open_writable(to, options)  # before anything is read
    if len(what) == 1 and Path(what[0]).suffix in (".yaml", ".yml"):
        for_shards: dict[str, object] = {
            "-o": out,
            "--store": store,
            "--filelist": filelist,
            "--nemo": nemo,
            "--segments": segments or None,
        }
        for_shards |= {"--librispeech": librispeech or None, "--commonvoice": commonvoice, "--kaldi": kaldi}
        if given := [option for option, value in for_shards.items() if value is not None]:
            raise ValueError(
                f"{', '.join(given)}: only for tar shards; the index of a run is stored in its cache folder"
            )
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        how = Indexing(no_progress, count, tokens, anew, sha256, parse_share(shard))
        index_run(Path(what[0]), how, on_cluster, to, options)
        if clean:
            clean_indexes(Path(what[0]))
        return
    for_runs = {"--tokens": tokens is not None, "--anew": anew, "--clean": clean}
    if unused := [option for option, is_given in for_runs.items() if is_given]:
        raise ValueError(f"{', '.join(unused)}: only for the YAML file of a run, not for tar shards")
    if out is None:
        raise ValueError("add -o FOLDER for the manifest of tar shards, or give the YAML file of a run")
    if re.match(r"\w+:/", str(out)):
        raise ValueError(f"-o {out}: name a folder of this machine, and the bucket with --to")
    if to is not None and local_path(to) is not None:
        raise ValueError(f"--to {to}: the manifest of tar shards is a folder already, {out}; --to is for buckets")
    layouts = {
        "--filelist": filelist,
        "--nemo": nemo,
        "--shar": shar,
        "--librispeech": librispeech,
        "--commonvoice": commonvoice,
        "--kaldi": kaldi,
    }
    given = [option for option, value in layouts.items() if value]
    if len(given) > 1:
        raise ValueError(f"{', '.join(given)}: give one of them")
    if text and text_field:
        raise ValueError("--text, --text-field: give one of them")
    if filelist is not None and (text or text_field):
        raise ValueError("--text, --text-field: a filelist names the clips; leave those without a text out of it")
    if text and given:
        raise ValueError("--text: texts are in the manifest, not in files; write --text-field text")
    if segments and given:
        raise ValueError(f"--segments, {given[0]}: give one of them; {given[0]} names the items itself")
    if segments and text:
        raise ValueError("--text: texts of segments are in ID.json; write --text-field text")
    share = parse_share(shard)
    if librispeech or commonvoice or kaldi:
        if len(what) > 1 or store is not None:
            raise ValueError(f"{given[0]}: name one folder, which is also the store of the run, and no --store")
        made = _index_loose(what[0], options, out, commonvoice or [], kaldi or [], text_field, sha256)
    else:
        shards = named_shards(what, store, options)
        rows, left_out = _rows(shards, filelist, nemo or [], shar, text_field)
        making = TarIndexing(
            shards.store,
            shards.paths,
            out,
            rows=rows,
            text=TextPlace(text_field) if rows is None and (text or text_field) else None,
            name=str(filelist or next(iter(nemo or ()), "")),
            sha256=sha256,
            segments=segments,
            versions=shards.versions,
        )
        made = _IndexPlan(making, shards.root, shards.size, left_out, len(making.paths), "shard")
    indexing, left_out = made.indexing, made.left_out
    count = len(share.of(indexing.paths))
    size = made.size // share.jobs
    with Progress("indexing") as shown:
        mapped = on_cluster or local_engine(workers, size=size, tasks=count, at_once=threads)
        indexing.run(mapped, share=share, progress=shown.update_read)
    if shard is not None:
        print_share_done(share, f"has read its share of {counted(made.files, made.noun)}", out)
        return
    manifest = indexing.finish()
    hours = sum(manifest.amounts["hours"]) / UNITS["hours"]
    time = spoken_hours(hours) if hours else "of unknown duration"
    left_out += indexing.without_text
    if left_out:
        Terminal().print(f"{counted(left_out, 'clip')} without a text left out", soft_wrap=True)
    if 0 < indexing.without_seconds < len(manifest):
        Terminal().print(
            f"{counted(indexing.without_seconds, 'clip')} of unknown duration, such as {indexing.first_without}: their "
            "sources cannot be weighted by hours, nor clips be chosen by min_seconds and max_seconds. `penstock "
            "filelist` leaves out clips that are empty or damaged",
            soft_wrap=True,
        )
    files = counted(manifest.shard_count if made.noun == "shard" else made.files, made.noun)
    sources = counted(len(manifest.sources), "source")
    Terminal().print(f"{out}: {counted(len(manifest), 'item')} in {files}, {sources}, {time}", soft_wrap=True)
    if to is not None:
        upload(out, sorted(out.iterdir()), to, PUBLISHED_MANIFEST, options)
    Terminal().print(f"use it with  manifest: {to or out}  and  store: {made.root}", soft_wrap=True)


class _IndexPlan(NamedTuple):
    """An index in the making.

    Attributes:
        indexing: Index.
        root: Folder or URL of the data.
        size: Bytes to read.
        left_out: Number of clips that were left out, as they have no text.
        files: Number of files to read.
        noun: Name of such a file.
    """

    indexing: TarIndexing
    root: str
    size: int
    left_out: int
    files: int
    noun: str


def _index_loose(
    url: str,
    options: StoreOptions,
    out: Path,
    commonvoice: list[str],
    kaldi: list[Path],
    text_field: str | None,
    sha256: bool,
) -> _IndexPlan:
    """Prepare the index of a folder of loose files: LibriSpeech, if it is neither of the others."""
    with Progress("listing files"):
        found = all_files(url, options)
    name = PurePosixPath(found.root).name
    if kaldi:
        described = read_kaldi(kaldi, found.root, found.paths, text_field)
    elif commonvoice:
        tables = [_below(table, found.root) for table in commonvoice]
        described = read_commonvoice(found.store, found.paths, tables, name, text_field)
    else:
        with Progress("reading texts") as shown:
            described = read_librispeech(found.store, found.paths, name, text_field, shown.update)
    rows = described.rows
    folders = set(rows.shard.tolist())
    known = found.infos([file.path for number, file in enumerate(rows.shards) if number not in folders])
    indexing = LooseIndexing(found.store, rows, known, out, name=url, sha256=sha256)
    size = sum(info.size for info in known.values())
    return _IndexPlan(indexing, found.root, size, described.without_text, len(known), "file")


def _below(path: str, root: str) -> str:
    """Return a path relative to the root, if it is that of a local file below it."""
    full = Path(path).absolute()
    return full.relative_to(root).as_posix() if full.exists() and full.is_relative_to(root) else path


def _rows(
    shards: Shards, filelist: Path | None, nemo: list[Path], shar: bool, text_field: str | None
) -> tuple[ItemTable | None, int]:
    """Return the samples to index, None for all, and how many were left out."""
    if nemo:
        return read_nemo(nemo, shards.paths, text_field)
    if shar:
        return read_shar(shards.store, shards.paths, text_field)
    return (None if filelist is None else read_filelist(filelist, known_shards=shards.paths)), 0
