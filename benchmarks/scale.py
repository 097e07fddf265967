"""How cost grows: compile a filelist, open the result, plan any step; time and memory, each in its own process.

python benchmarks/scale.py [--rows 10_000_000] [--items 50_000_000] [--groups 20_000]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LANGUAGES = ["assamese", "bengali", "english", "gujarati", "hindi", "kannada"]
LANGUAGES += ["malayalam", "marathi", "odia", "punjabi", "tamil", "telugu"]


def uneven_groups(items: int, groups: int) -> list[int]:
    """Group sizes of 1 to 10,000 that sum to about ``items``."""
    sizes = np.random.default_rng(7).integers(1, max(2, 2 * items // groups), size=groups)
    return [int(size) for size in np.clip(sizes, 1, 10_000)]


def write_filelist(path: Path, rows: int, groups: int) -> int:
    written = 0
    with open(path, "w") as file:
        for number, size in enumerate(uneven_groups(rows, groups)):
            language = LANGUAGES[number % len(LANGUAGES)]
            shard = f"{language}/shard-{number:06d}.tar"
            file.writelines(
                f"{shard}\t{language}_{number:06d}_{clip:08d}\t{language}\t{2 + clip % 977 / 81:.3f}\n"
                for clip in range(size)
            )
            written += size
    return written


def write_large(out: Path, items: int, groups: int) -> None:
    import pyarrow as pa

    from penstock.readers.tar.layout import Shard
    from penstock.readers.tar.writer import ItemTable, write_manifest

    sizes = np.array(uneven_groups(items, groups))
    total = int(sizes.sum())
    width = 12
    digits = np.char.zfill(np.arange(total).astype(f"S{width}"), width)
    offsets = np.arange(total + 1, dtype=np.int64) * width
    ids = pa.LargeStringArray.from_buffers(total, pa.py_buffer(offsets), pa.py_buffer(digits))
    shard = np.repeat(np.arange(groups, dtype=np.int32), sizes)
    shards = [Shard(f"shard-{number:06d}.tar", None, None) for number in range(groups)]
    source = (shard.astype(np.int64) * len(LANGUAGES) // groups).astype(np.int32)
    write_manifest(ItemTable(ids, np.full(total, 6.0), shard, source, shards, LANGUAGES), out)


def held() -> dict[str, int]:
    """This process's Pss in MB: all of it, and the part that is not mapped files."""
    values = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split()[:2]
        values[name.rstrip(":")] = int(value) // 1024
    return {"pss": values["Pss"], "pss_anon": values["Pss_Anon"]}


def show_open(path: Path) -> None:
    from penstock.readers.tar.manifest import TarManifest

    before = held()
    start = time.perf_counter()
    manifest = TarManifest(path)
    opened = time.perf_counter() - start
    after = held()
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(manifest), size=1024)
    start = time.perf_counter()
    ids = manifest.ids(rows)
    manifest.seconds(rows)
    manifest.locate(rows)
    looked_up = time.perf_counter() - start
    start = time.perf_counter()
    assert rows[0] in manifest.find(ids[0])
    found = time.perf_counter() - start
    print(
        f"{path.name}: {len(manifest):,} items: open {opened * 1e3:.1f} ms, holds "
        f"{after['pss_anon'] - before['pss_anon']} MB anonymous, {after['pss'] - before['pss']} MB in all; "
        f"1,024 random rows {looked_up * 1e3:.1f} ms; find {found * 1e3:.1f} ms"
    )


def show_plan(path: Path) -> None:
    import penstock
    from penstock.plan.schedule import make_schedule

    options = {"manifest": path.absolute(), "batch_size": 1024, "mixture": {"weights": "items"}}
    penstock.open(**options).planned(0)  # what comes now is measured without imports, with the files' pages here
    before = held()
    make_schedule.cache_clear()
    start = time.perf_counter()
    feed = penstock.open(**options)
    print(f"open a run: {(time.perf_counter() - start) * 1e3:.0f} ms")
    for step in (0, 1_000, 1_000_000, 1_000_000_000):
        times = []
        for _ in range(7):
            feed = penstock.open(**options)
            start = time.perf_counter()
            feed.planned(step)
            times.append(time.perf_counter() - start)
        print(f"step {step:>13,} of 1,024 slots, from cold: median {sorted(times)[3] * 1e3:.1f} ms")
    steps = 1_000
    start = time.perf_counter()
    for step in range(10**6, 10**6 + steps):
        feed.planned(step)
    took = time.perf_counter() - start
    more = held()["pss_anon"] - before["pss_anon"]
    print(f"walking: {steps * 1024 / took:,.0f} planned items/s; held {more} MB more")


def show_compile(filelist: Path, out: Path) -> None:
    from penstock.readers.tar.filelist import compile_filelist

    stages: dict[str, float] = {}
    start = time.perf_counter()
    manifest = compile_filelist(
        filelist, out, progress=lambda what, *_: stages.setdefault(what, time.perf_counter() - start)
    )
    took = time.perf_counter() - start
    # Not ru_maxrss, which counts what the parent held when this process was forked.
    (peak,) = (int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    begun = ", ".join(f"{what} {at:.1f}" for what, at in stages.items())
    print(f"compile {len(manifest):,} rows: {took:.1f} s (stages begin at: {begun}), peak RSS {peak // 1024:,} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the filelist that is compiled")
    parser.add_argument("--items", type=int, default=50_000_000, help="items of the manifest that is opened")
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--only", choices=("compile", "open", "plan"), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only == "compile":
        show_compile(arguments.path, arguments.path.with_suffix(".manifest"))
    elif arguments.only == "open":
        show_open(arguments.path)
    elif arguments.only == "plan":
        show_plan(arguments.path)
    else:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            filelist = Path(folder) / "train.tsv"
            write_filelist(filelist, arguments.rows, arguments.groups)
            write_large(Path(folder) / "large.manifest", arguments.items, arguments.groups)
            for only, path in (
                ("compile", filelist),
                ("open", filelist.with_suffix(".manifest")),
                ("open", Path(folder) / "large.manifest"),
                ("plan", Path(folder) / "large.manifest"),
            ):
                command = [sys.executable, __file__, "--only", only, "--path", os.fspath(path)]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
