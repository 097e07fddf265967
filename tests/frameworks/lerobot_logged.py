"""``penstock.integrations.lerobot_train``, with one line per batch in ``$TRAINED/trained.RANK.jsonl``."""

import json
import os
from pathlib import Path
from typing import Any

from penstock.integrations import lerobot_train


def main() -> None:
    from lerobot.scripts import lerobot_train as script

    update_policy = script.update_policy
    rank = int(os.environ["RANK"])
    log = (Path(os.environ["TRAINED"]) / f"trained.{rank}.jsonl").open("a", buffering=1)

    def logged(metrics: Any, policy: Any, batch: Any, *rest: Any, **named: Any) -> Any:
        updated = update_policy(metrics, policy, batch, *rest, **named)
        ids = [str(index) for index in batch["index"].tolist()]
        line = {"step": metrics.steps, "world": int(os.environ["WORLD_SIZE"]), "ids": ids, "loss": metrics.loss.val}
        print(json.dumps(line), file=log)
        return updated

    script.update_policy = logged
    lerobot_train.main()


if __name__ == "__main__":  # workers of a DataLoader import this file, too
    main()
