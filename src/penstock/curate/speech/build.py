"""Shards -> a filelist, its indexed manifest, and a report of the dropped clips: one pass over the data.

    shards --measure (an engine, once)--> OUT.measured/ --judge by rules--> OUT.tsv, OUT.manifest/, OUT.report.json

The measured tables are kept: a run with other rules reads only shards that have changed.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.config import nearest
from penstock.curate.speech.holdout import HoldOut
from penstock.curate.speech.judge import HELD_OUT, KEPT, ClipJudge, Report
from penstock.curate.speech.measure import MeasureShard
from penstock.curate.speech.measured import MeasuredFolder
from penstock.curate.speech.rows import Chosen, write_tsv
from penstock.curate.speech.rules import Rules
from penstock.curate.speech.shardresults import ShardProgress, make_missing
from penstock.manifest.errors import Problems
from penstock.manifest.publish import locked
from penstock.readers.tar.writer import write_manifest
from penstock.runtime.engines.engine import Engine, JobShare
from penstock.store.blob import Store


@dataclass(frozen=True, slots=True)
class Outputs:
    """Paths of the results. Tables and report are next to the filelist, manifests too unless ``manifest`` is set."""

    filelist: Path
    held_out: Path | None = None
    manifest: Path | None = None

    def __post_init__(self) -> None:
        if self.filelist == self.held_out:
            raise ValueError(f"{self.filelist}: kept and held-out clips cannot go to the same file; name two files")

    @property
    def measured(self) -> Path:
        return self.filelist.with_suffix(".measured")

    @property
    def report(self) -> Path:
        return self.filelist.with_suffix(".report.json")

    def manifest_of(self, filelist: Path) -> Path:
        return self.manifest if self.manifest and filelist == self.filelist else filelist.with_suffix(".manifest")


def build_filelist(
    store: Store,
    paths: Collection[str],
    outputs: Outputs,
    engine: Engine,
    *,
    rules: Rules = Rules(),
    hold_out: HoldOut = HoldOut(),
    skip_broken: bool = False,
    progress: ShardProgress | None = None,
) -> Report:
    """Measure shards and write the clips that pass the rules.

    Args:
        store: Store of the shards.
        paths: Paths of the shards in ``store``.
        outputs: Paths of the results.
        engine: Engine that measures.
        rules: Rules that a clip must pass.
        hold_out: Speakers and ids to hold out.
        skip_broken: Whether to skip damaged archives. Shards that cannot be read are still an error.
        progress: Function to call after each shard.

    Raises:
        ManifestError: If shards are damaged or cannot be read; the message names all of them. Measured tables are kept.
        ValueError: If no clip is left, or nothing is held out although it was asked for.
    """
    ordered = _ordered(paths)
    outputs.measured.mkdir(parents=True, exist_ok=True)
    folder = MeasuredFolder(outputs.measured, store.identity)
    with locked(outputs.measured / ".lock"):
        problems = Problems(str(outputs.filelist))
        versions = make_missing(store, ordered, folder, MeasureShard(store), engine, progress, problems)
        _raise(problems, skip_broken)
        judge = ClipJudge(rules, hold_out)
        kept = Chosen()
        held = Chosen()
        for path, version in versions.items():
            measured = folder.load(path, version)
            if measured is None:
                raise FileNotFoundError(f"{outputs.measured}: the table of {path} is missing; run the command again")
            keep, hold = judge.split(measured)
            kept.add(measured, keep)
            held.add(measured, hold)
        report = judge.close()
        report.broken_shards = [path for path in ordered if path not in versions]
        _check(report, rules, hold_out)
        for filelist, chosen in ((outputs.held_out, held), (outputs.filelist, kept)):
            if filelist is not None:
                _write(filelist, outputs.manifest_of(filelist), chosen, store)
        outputs.report.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    return report


def measure_share(
    store: Store,
    paths: Collection[str],
    outputs: Outputs,
    engine: Engine,
    share: JobShare,
    *,
    skip_broken: bool = False,
    progress: ShardProgress | None = None,
) -> None:
    """Measure the shards of one of several jobs, for a later ``build_filelist``. Takes no lock.

    Args:
        store: Store of the shards.
        paths: Paths of the shards of all jobs.
        outputs: Paths of the results.
        engine: Engine that measures.
        share: Share of the job.
        skip_broken: Whether to skip damaged archives.
        progress: Function to call after each shard.

    Raises:
        ManifestError: If shards are damaged or cannot be read; the message names all of them. Measured tables are kept.
    """
    problems = Problems(str(outputs.filelist))
    folder = MeasuredFolder(outputs.measured, store.identity)
    own = share.of(_ordered(paths))
    make_missing(store, own, folder, MeasureShard(store), engine, progress, problems)
    _raise(problems, skip_broken)


def _ordered(paths: Collection[str]) -> list[str]:
    for path in paths:
        if any(letter in path for letter in "\t\r\n"):
            raise ValueError(f"shard {path!r}: a filelist cannot hold a tab or a line break; rename it")
    return sorted(set(paths))


def _raise(problems: Problems, skip_broken: bool) -> None:
    if problems and not (skip_broken and set(problems.counts) == {"broken shard"}):
        raise problems.error()


def _check(report: Report, rules: Rules, hold_out: HoldOut) -> None:
    asked = sorted(rules.languages or ())
    if asked and report.languages and not set(asked) & set(report.languages):
        near = nearest(asked[0], report.languages) or f"; there are {', '.join(report.languages[:12])}"
        raise ValueError(f"no clip is left: none has the language {' or '.join(asked)}{near}")
    if not report.total([KEPT]):
        by_rule = ", ".join(f"{report.total([rule]):,} × {rule}" for rule in report.rules)
        held = f"{report.total([HELD_OUT]):,} held out" if report.total([HELD_OUT]) else ""
        raise ValueError(f"no clip is left: {', '.join(filter(None, (by_rule, held))) or 'the shards contain none'}")
    if hold_out and not report.total([HELD_OUT]):
        raise ValueError("no clip is held out: no named or selected speaker or id has a clip that passed the rules")


def _write(filelist: Path, manifest: Path, chosen: Chosen, store: Store) -> None:
    filelist.parent.mkdir(parents=True, exist_ok=True)
    items = chosen.items()
    write_manifest(replace(items, store=store.url), manifest)
    write_tsv(items, filelist)
