"""What differs between pipelines stays behind the seam: other rooms name no file format and no kind of data."""

import re
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "penstock"
BEHIND_THE_SEAM = ("readers", "curate", "pipelines", "recipes", "media", "text", "compat")
# Commands that prepare data, or make some for a demo.
PREPARING = ("index", "shards", "filelist", "eval", "eval_sources", "demo", "pull")
# Not in the name of a file, such as usage.jsonl.
FORMAT = re.compile(
    r"(?<![.\w-])(tars?|tarfile|wavs?|flac|mp3|ogg|opus|jsonl|parquet|lerobot|mp4|webdataset|clips?|episodes?|cameras?)\b",
    re.IGNORECASE,
)


def outside() -> list[Path]:
    files = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in BEHIND_THE_SEAM]
    files = [path for path in files if path.parent.name != "demos"]
    return [path for path in files if not (path.parent.name == "cli" and path.stem in PREPARING)]


def test_no_module_outside_the_seam_names_a_file_format() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in outside()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORMAT.search(line)
    ]
    assert len(outside()) > 80 and found == []


def test_the_check_would_see_one() -> None:
    assert FORMAT.search("reads tar shards") and FORMAT.search("WAV") and FORMAT.search('"parquet"')
    assert not FORMAT.search("start") and not FORMAT.search("logs/usage.jsonl") and not FORMAT.search("shard-0.tar")
