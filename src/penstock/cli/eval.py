"""``penstock eval build``: selects a fixed set of clips per language, from folders, tar shards or known datasets."""

from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.console import Terminal, escaped
from penstock.cli.options import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.progress import Progress
from penstock.recipes.extras import require_packages
from penstock.recipes.speech import DECODERS
from penstock.runtime.engines.engine import ThreadEngine
from penstock.store.remote.options import StoreOptions

if TYPE_CHECKING:
    from penstock.curate.speech.evaluation.build import Built

evaluation = typer.Typer(help="Build evaluation data.", no_args_is_help=True)


@evaluation.command()
def build(
    out: Annotated[str, typer.Argument(help="Output folder, or prefix of a bucket such as s3://bucket/evaluation.")],
    source: Annotated[
        list[str],
        typer.Option(
            metavar="[LANGUAGE=]SOURCE",
            help="Folder with one folder per language; tar shards (a file, folder or URL); or a dataset: "
            "fleurs:CONFIG:SPLIT, librispeech:CONFIG:SPLIT (CONFIG and SPLIT are optional; add @FOLDER for a local "
            "copy), datasets:CONFIG:SPLIT@ORG/NAME. May be repeated.",
        ),
    ],
    samples: Annotated[int, typer.Option(min=1, help="Number of samples per language.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the selection.")] = 0,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Write one LANGUAGE_eval.tar of 16 kHz WAV and JSON per language, with index.json and a filelist."""
    require_packages("eval build", "speech", *DECODERS)
    from penstock.cli.eval_sources import candidates_of  # imports decoders, which other commands do not need
    from penstock.curate.speech.evaluation.build import build_evaluation
    from penstock.curate.speech.evaluation.destination import open_destination

    options = StoreOptions(endpoint, region, anonymous, requests_per_second)
    with open_destination(out, options) as destination, Progress("building") as shown:
        listed = shown.track(chain.from_iterable(candidates_of(each, options) for each in source))

        def progress(language: str, done: int, total: int) -> None:
            shown.update(done, total, language)

        built = build_evaluation(listed, destination, ThreadEngine(1), count=samples, seed=seed, progress=progress)
    show(built, out, Terminal())


def show(built: "Built", out: str, console: Console) -> None:
    """Print a table of languages, then languages with too few samples, and clips that were left out."""
    table = Table("language", title=f"evaluation data in {out}", title_justify="left")
    for column in ("samples", "hours", "MB", "of candidates", ""):
        table.add_column(column, justify="right")
    for name, one in sorted(built.languages.items()):
        archive = one.archive
        cells = (len(archive.samples), f"{one.hours:.2f}", f"{archive.bytes / 1e6:.2f}", f"{one.candidates:,}")
        table.add_row(name, *map(str, cells), "built" if name in built.made else "unchanged")
    console.print(table)
    for name, one in sorted(built.languages.items()):
        if len(one.archive.samples) < one.requested:
            found = f"only {len(one.archive.samples):,} of the {one.requested:,} requested samples"
            console.print(_of(name, f"{found}; its sources have no more"), soft_wrap=True)
        for clip in one.archive.left_out:
            left_out = f"left out {clip.source}: {clip.name}: {clip.reason}"
            console.print(_of(name, left_out), soft_wrap=True)


def _of(language: str, text: str) -> Text:
    return Text.assemble((escaped(language), "yellow"), f": {escaped(text)}")
