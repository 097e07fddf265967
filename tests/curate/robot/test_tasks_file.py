from pathlib import Path

import numpy as np
import pandas as pd

from penstock.curate.robot.writer import Episode, write_dataset


def test_pandas_reads_tasks_as_lerobot_expects_them_with_the_words_as_index(tmp_path: Path) -> None:
    episodes = [Episode(task, {"action": np.zeros((3, 2), np.float32)}) for task in ("push", "pull", "push")]
    write_dataset(tmp_path, episodes, fps=10)
    tasks = pd.read_parquet(tmp_path / "meta" / "tasks.parquet")
    assert tasks.index.tolist() == ["push", "pull"]
    assert tasks.index.name == "task"
    assert tasks["task_index"].tolist() == [0, 1]
