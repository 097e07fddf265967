"""The speech job's clips in the peers' own formats: MDS for Mosaic Streaming, chunks for LitData. Made once.

Runs in the peers' environment (see docs/benchmarks.md). Items are the files' bytes, as in the tars.
"""

import argparse
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torchvision_schemas


def clips(folder: str) -> Iterator[dict[str, Any]]:
    for shard in sorted(Path(folder).glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                if not member.name.endswith(".json"):
                    yield {"id": Path(member.name).stem, "audio": tar.extractfile(member).read()}


def to_mds(source: Path, out: Path) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(out), columns={"id": "str", "audio": "bytes"}) as writer:
        for clip in clips(str(source)):
            writer.write(clip)


def to_litdata(source: Path, out: Path) -> None:
    import litdata

    litdata.optimize(fn=clips, inputs=[str(source)], output_dir=str(out), chunk_bytes="64MB", num_workers=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/speech"))
    folder = parser.parse_args().folder.absolute()
    torchvision_schemas.declare()
    for name in ("wav", "flac"):
        for source in sorted((folder / name).iterdir()):
            for form, convert in (("mds", to_mds), ("litdata", to_litdata)):
                out, partial = folder / f"{name}-{form}" / source.name, folder / "partial"
                if not out.exists():
                    shutil.rmtree(partial, ignore_errors=True)
                    convert(source, partial)
                    out.parent.mkdir(exist_ok=True)
                    partial.rename(out)


if __name__ == "__main__":
    main()
