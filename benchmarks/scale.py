"""How cost grows: compile a filelist, open the result, plan any step; open many files, episodes and sources; what
workers get. Time and memory, each in its own process. JSON and Markdown to results/; with ``--only`` the figures of
other parts are kept. Times of plans are CPU time.

python benchmarks/scale.py [--rows 10_000_000] [--items 100_000_000] [--groups 20_000]
python benchmarks/scale.py --only items [--items 100_000_000]
python benchmarks/scale.py --only files [--files 100_000]
python benchmarks/scale.py --only episodes [--episodes 100_000]
python benchmarks/scale.py --only sources [--sources 1_000]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "scale.json"
LANGUAGES = ["assamese", "bengali", "english", "gujarati", "hindi", "kannada"]
LANGUAGES += ["malayalam", "marathi", "odia", "punjabi", "tamil", "telugu"]


def note(what: str, figures: dict[str, float]) -> None:
    """Print figures, and merge them into the results."""
    rounded = {name: round(value, 2) for name, value in figures.items()}
    print(f"{what}: " + ", ".join(f"{name} {value:,}" for name, value in rounded.items()), flush=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[what] = results.get(what, {}) | rounded
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    rows = [f"| {each} | {name} | {value:,} |" for each, found in results.items() for name, value in found.items()]
    RESULTS.with_suffix(".md").write_text("\n".join(["| run | what | figure |", "|---|---|---:|", *rows]) + "\n")


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


def write_large(out: Path, items: int, groups: int, sources: list[str]) -> None:
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
    source = (shard.astype(np.int64) * len(sources) // groups).astype(np.int32)
    write_manifest(ItemTable(ids, np.full(total, 6.0), shard, source, shards, sources), out)


def write_files(folder: Path, count: int) -> None:
    """Write JSONL files of one conversation each, and a tokenizer."""
    import random

    from labels import CHATML, made_samples, made_tokenizer

    random.seed(1)
    tokenizer = made_tokenizer(made_samples(300))
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder / "tokenizer")
    (folder / "data").mkdir()
    for number in range(count):
        turns = [
            {"role": "user", "content": f"What is {number}?"},
            {"role": "assistant", "content": f"It is {number}."},
        ]
        (folder / "data" / f"{number:07d}.jsonl").write_text(json.dumps({"messages": turns}) + "\n")


def write_episodes(folder: Path, count: int) -> None:
    """Write what a LeRobotDataset says of its episodes, without their rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from penstock.curate.robot.writer import Episode, write_dataset

    length = 300
    write_dataset(folder, [Episode("task 0", {"action": np.zeros((length, 7), np.float32)})], fps=30)
    path = folder / "meta/info.json"
    info = json.loads(path.read_text()) | {"total_episodes": count, "total_frames": count * length}
    path.write_text(json.dumps(info | {"splits": {"train": f"0:{count}"}}))
    numbers = np.arange(count)
    columns = {
        "episode_index": numbers,
        "tasks": [[f"task {number % 1_000}"] for number in range(count)],
        "length": np.full(count, length),
        "data/chunk_index": numbers // 1_000_000,
        "data/file_index": numbers // 1_000,
        "dataset_from_index": numbers * length,
        "dataset_to_index": (numbers + 1) * length,
    }
    pq.write_table(pa.table(columns), folder / "meta/episodes/chunk-000/file-000.parquet")


def show_opening(what: str, options: dict[str, Any], times: int = 3) -> None:
    """Show what it takes to open a run for the first time and again, and what its workers get."""
    import penstock
    from penstock.runtime.mappedpickle import dump_mapped
    from penstock.runtime.shared import pickling_for_workers

    took = []
    for _ in range(times + 1):
        start = (time.perf_counter(), time.process_time())
        feed = penstock.open(**options)
        took.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    again = np.median(took[1:], axis=0)
    cold = time.process_time()
    feed.planned(1_000_000)
    cold = time.process_time() - cold
    with pickling_for_workers():
        sizes = [len(piece) for piece in dump_mapped(feed.walk)][2::2]
    figures = {
        "open first, s": took[0][0],
        "open first, s of CPU, without its processes": took[0][1],
        "open again, s": again[0],
        "open again, s of CPU": again[1],
        "step 1,000,000 of 1,024 from cold, ms of CPU": 1e3 * cold,
        "pickled per worker, bytes": sizes[0],
        "mapped by all workers, bytes": sum(sizes[1:]),
        "held, MB": held()["pss_anon"],
    }
    note(what, figures)


def show_files(folder: Path) -> None:
    import logging

    logging.disable(logging.WARNING)  # how far the index is
    options = {
        "recipe": "chat",
        "sources": [{"name": "files", "path": f"{folder}/data/*.jsonl", "dtype": "conversation"}],
        "batch_size": 1024,
        "chat": {"tokenizer": str(folder / "tokenizer"), "max_length": 512},
        "cache": {"dir": str(folder / "cache"), "size": "1GB"},
    }
    show_opening(f"{len(os.listdir(folder / 'data')):,} files", options)


def show_episodes(folder: Path) -> None:
    options = {
        "recipe": "robot",
        "store": str(folder),
        "batch_size": 1024,
        "cache": {"dir": f"{folder}.cache", "size": "1GB"},
    }
    show_opening(f"{json.loads((folder / 'meta/info.json').read_text())['total_episodes']:,} episodes", options)


def write_sources(folder: Path, count: int) -> None:
    """A manifest of sources with 100 shards of about 100 clips each."""
    write_large(folder / "many", 10_000 * count, 100 * count, [f"source-{number:05d}" for number in range(count)])


def show_sources(folder: Path) -> None:
    """Batches of several sizes, in CPU time, and the commands that read no data."""
    import penstock

    run = {"manifest": folder / "many", "mixture": {"weights": "items"}}
    feed = penstock.open(**run, batch_size=16)
    what = f"{len(feed.catalog.sources):,} sources"
    print(f"{what}: pool {feed.identity.pool}")
    note(what, {"state, bytes": len(json.dumps(feed.state(10**6)))})
    show_opening(what, {**run, "batch_size": 1024}, times=1)
    for size in (16, 128, 1_024):
        cold = []
        for step in (0, 1_000, 1_000_000):
            feed = penstock.open(**run, batch_size=size)
            start = time.process_time()
            feed.planned(step)
            cold.append(1e3 * (time.process_time() - start))
        walk = []
        for step in range(1_000_001, 1_000_301):
            start = time.process_time()
            planned = feed.planned(step)
            walk.append(1e3 * (time.process_time() - start))
        residents = []
        for _ in range(2):
            start = time.process_time()
            feed.plan.order.residents(planned.slot)
            residents.append(1e3 * (time.process_time() - start))
        figures = {
            "step from cold at most, ms of CPU": max(cold),
            "each of the next 300, median, ms": np.median(walk),
            "each of the next 300, mean, ms": np.mean(walk),
            "residents, ms": residents[0],
            "residents again, ms": residents[1],
            "held, MB": held()["pss_anon"],
        }
        note(f"{what}, batches of {size:,}", figures)
    config = folder / "run.yaml"
    config.write_text(json.dumps({**run, "manifest": str(run["manifest"]), "batch_size": 128}))
    for command, *more in (("--help",), ("mix", config), ("plan", config), ("where", config, "000000000007")):
        before = os.times().children_user
        name = [sys.executable, "-m", "penstock", command]
        subprocess.run([*name, *map(str, more)], check=True, stdout=subprocess.DEVNULL)
        note(what, {f"penstock {command}, s of CPU": os.times().children_user - before})


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
    figures = {
        "open the manifest, ms": 1e3 * opened,
        "held by the manifest, anonymous, MB": after["pss_anon"] - before["pss_anon"],
        "held by the manifest, MB": after["pss"] - before["pss"],
        "1,024 random rows, ms": 1e3 * looked_up,
        "find an id, ms": 1e3 * found,
    }
    note(f"{len(manifest):,} items", figures)


def show_plan(path: Path) -> None:
    import penstock
    from penstock.plan.schedule import make_schedule
    from penstock.readers.tar.manifest import TarManifest
    from penstock.runtime.mappedpickle import dump_mapped
    from penstock.runtime.shared import pickling_for_workers

    options = {"manifest": path.absolute(), "batch_size": 1024, "mixture": {"weights": "items"}}
    penstock.open(**options).planned(0)  # what comes now is measured without imports, with the files' pages here
    before = held()
    make_schedule.cache_clear()
    start = time.process_time()
    feed = penstock.open(**options)
    figures = {"open a run, ms of CPU": 1e3 * (time.process_time() - start)}
    for step in (0, 1_000, 1_000_000, 1_000_000_000):
        times = []
        for _ in range(7):
            feed = penstock.open(**options)
            start = time.process_time()
            feed.planned(step)
            times.append(time.process_time() - start)
        figures[f"step {step:,} of 1,024 from cold, ms of CPU"] = 1e3 * sorted(times)[3]
    steps = 1_000
    start = time.process_time()
    for step in range(10**6, 10**6 + steps):
        feed.planned(step)
    figures["walking, planned items per s of CPU"] = steps * 1024 / (time.process_time() - start)
    figures["held more after 1,000 steps, MB"] = held()["pss_anon"] - before["pss_anon"]
    with pickling_for_workers():
        figures["pickled per worker, bytes"] = len(list(dump_mapped(feed.walk))[2])
    note(f"{len(TarManifest(path)):,} items", figures)


def show_compile(filelist: Path, out: Path) -> None:
    from penstock.readers.tar.filelist import compile_filelist

    start = time.perf_counter()
    manifest = compile_filelist(filelist, out)
    took = time.perf_counter() - start
    # Not ru_maxrss, which counts what the parent held when this process was forked.
    (peak,) = (int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(f"compile {len(manifest):,} rows: {took:.1f} s, peak RSS {peak // 1024:,} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the filelist that is compiled")
    parser.add_argument("--items", type=int, default=100_000_000, help="items of the manifest that is opened")
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=100_000, help="files of the chat run that is opened")
    parser.add_argument("--episodes", type=int, default=100_000, help="episodes of the robot run that is opened")
    parser.add_argument("--sources", type=int, default=1_000, help="sources of the run that is planned")
    parser.add_argument("--only", choices=("compile", "open", "plan", "items", "files", "episodes", "sources"))
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only == "compile":
        show_compile(arguments.path, arguments.path.with_suffix(".manifest"))
    elif arguments.only == "open":
        show_open(arguments.path)
    elif arguments.only == "plan":
        show_plan(arguments.path)
    elif arguments.only in ("files", "episodes", "sources"):
        write, show, count = {
            "files": (write_files, show_files, arguments.files),
            "episodes": (write_episodes, show_episodes, arguments.episodes),
            "sources": (write_sources, show_sources, arguments.sources),
        }[arguments.only]
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            (Path(folder) / "made").mkdir()
            write(Path(folder) / "made", count)
            show(Path(folder) / "made")
    else:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            large = Path(folder) / "large.manifest"
            filelist = Path(folder) / "train.tsv"
            write_large(large, arguments.items, arguments.groups, LANGUAGES)
            parts = [("open", large), ("plan", large)]
            if not arguments.only:
                write_filelist(filelist, arguments.rows, arguments.groups)
                parts = [("compile", filelist), ("open", filelist.with_suffix(".manifest")), *parts]
            for only, path in parts:
                command = [sys.executable, __file__, "--only", only, "--path", os.fspath(path)]
                subprocess.run(command, check=True)
        for only in () if arguments.only else ("files", "episodes", "sources"):
            count = str(getattr(arguments, only))
            subprocess.run([sys.executable, __file__, "--only", only, f"--{only}", count], check=True)


if __name__ == "__main__":
    main()
