"""Runs of several processes."""

from pathlib import Path

from tests.frameworks.runs import children, is_running, torchrun

ENDLESS = """
import json, os, sys, time
log = open(f"{sys.argv[1]}/trained.{os.environ['RANK']}.jsonl", "a", buffering=1)
print(json.dumps({"step": 0}), file=log)
time.sleep(3600)
"""


def test_a_killed_run_leaves_no_rank_behind(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with torchrun(script, tmp_path, folder=tmp_path) as run:
        run.wait_for(0, rank=1)
        run.wait_for(0)
        ranks = children(run.process.pid)
        assert len(ranks) == 2
        run.kill()
        assert not any(map(is_running, ranks))
