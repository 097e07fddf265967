"""``penstock index`` of a run: indexes its sources, cleans what is stored, and publishes it in a bucket."""

from collections.abc import Iterable
from pathlib import Path

from rich.filesize import decimal

from penstock.cli.console import Terminal, counted
from penstock.cli.engines import print_share_done
from penstock.cli.progress import Progress
from penstock.config import ConfigError, load_config
from penstock.feed.opening import index_name, open_context
from penstock.index import IndexedRun
from penstock.manifest.errors import ManifestError
from penstock.pipelines import PIPELINES
from penstock.pipelines.pipeline import Indexing
from penstock.readers.indextasks import IndexResult, IndexTask, make, make_all
from penstock.readers.published import publish
from penstock.readers.shelf import clean as clean_shelf
from penstock.readers.shelf import shelf_files
from penstock.runtime.engines.engine import ALL, Engine, ThreadEngine
from penstock.runtime.engines.local import LocalEngine
from penstock.store.cache.maintenance import INDEXES
from penstock.store.remote.options import StoreOptions


def clean_indexes(path: Path) -> None:
    with Progress("cleaning") as shown:
        removed = clean_shelf(open_context(load_config(path, PIPELINES)).scratch / INDEXES, shown.update)
    Terminal().print(f"{decimal(removed)} of stored indexes removed", soft_wrap=True)


def index_run(path: Path, how: Indexing, engine: Engine | None, to: str | None, options: StoreOptions) -> None:
    """Index all sources of a run, or the share of a job, and report all problems at the end.

    Args:
        path: YAML file of the run.
        how: How to index.
        engine: Engine of other machines; None for processes of this one.
        to: Folder or bucket to upload the index to; None to keep it here only.
        options: Access to that bucket.
    """
    run = IndexedRun(load_config(path, PIPELINES))
    if how.keep_tokens and not any(pipeline.keeps_tokens for pipeline in run.pipelines.values()):
        names = ", ".join(run.pipelines)
        raise ValueError(f"--tokens: {path} has no text to tokenize (recipe {names}); remove the option")
    if (engine is not None or how.share != ALL) and not any(each.has_tasks for each in run.pipelines.values()):
        raise ValueError(
            f"--engine ray, --shard: {path} has little to index (recipe {', '.join(run.pipelines)}); leave them out"
        )
    if how.anew and how.share != ALL:
        raise ValueError("--anew, --shard: each job would forget what the others have made; leave one of them out")
    with Progress("indexing") as shown:
        if engine is not None or how.share != ALL:
            _make_tasks(run, how, engine or _local(how.workers), shown)
            how = how._replace(anew=False)  # done, before the first task
        else:
            run.prepare(how._replace(progress=shown.update))
    if how.share != ALL:
        print_share_done(how.share, "has indexed its share")
        return
    wrong = []
    for source in run.sources():
        try:
            with Progress(f"indexing {source.name}") as shown:
                line = source.index(how._replace(progress=shown.update))
            Terminal().print(f"{source.name}: {line}", soft_wrap=True)
        except (ManifestError, ConfigError) as error:
            wrong.append(f"{source.name}: {error}")
    wrong += run.misfits()
    if wrong:
        raise ManifestError("\n".join(wrong))
    if to is not None:
        shelf = run.context.scratch / INDEXES
        upload(shelf, shelf_files(shelf, run.context.stores.identities()), to, index_name(run.config), options)
        Terminal().print(f"use it on any node with  indexes: {{store: {to}}}", soft_wrap=True)


def _make_tasks(run: IndexedRun, how: Indexing, engine: Engine, shown: Progress) -> None:
    def keep(_: IndexTask, result: IndexResult) -> None:
        run.keep(result)

    make_all(engine, make, run.tasks(how), keep, shown.update)


def _local(workers: int) -> Engine:
    return LocalEngine(workers) if workers > 1 else ThreadEngine(1)


def upload(folder: Path, paths: Iterable[Path], to: str, name: str, options: StoreOptions) -> None:
    """Upload files of a folder as an index, and print what was uploaded; see ``publish``."""
    with Progress("uploading") as shown:
        done = publish(folder, paths, to, name, options, shown.update)
    Terminal().print(
        f"{to}: {counted(done.files, 'file')}, {decimal(done.size)}; {done.uploaded:,} uploaded", soft_wrap=True
    )


def no_progress(done: int, total: int | None, note: str) -> None:
    pass
