"""What a command that Ctrl-C has stopped leaves behind: one line, so that nobody has to guess."""

from rich.console import Console
from rich.text import Text

EXIT_CODE = 130  # of a shell, for a command that was ended by SIGINT

_KEPT = {
    "warm": "what was downloaded stays in the cache; run the same command again to continue",
    "pull": "what was downloaded stays in the folder; run the same command again to continue",
    "index": "no manifest was written; what was indexed of a run is kept: run the same command again to continue",
    "filelist": "no filelist was written; measured shards are kept: run the same command again to continue",
    "eval": "files that are complete stay; run the same command again to continue",
    "demo": "the demo's data stays in its folder",
    "replay": "the batches that are listed above were written",
}


def print_stopped(command: str | None) -> None:
    """Print what a command that was stopped has kept."""
    kept = _KEPT.get(command or "")
    said = Text.assemble(("stopped", "yellow"), f": {kept}" if kept else "")
    Console(stderr=True).print(said, soft_wrap=True)
