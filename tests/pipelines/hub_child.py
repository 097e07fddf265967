"""Opens chat runs over a hub, in a process of its own: ``datasets`` reads where its hub is when it is imported."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from penstock.config import ConfigError
from penstock.store.remote import web
from tests.pipelines.chat_sources import open_chat


def outcome(folder: Path, sources: list[dict[str, Any]]) -> dict[str, Any]:
    """What became of a run: its first text, its state, and what a copy of it asked the hub's API; or an error."""
    try:
        feed = open_chat(folder, *sources)
    except ConfigError as error:
        return {"error": str(error)}
    asked: list[str] = []
    get = web.get

    def noted(url: str, *rest: Any) -> web.Answer:
        asked.append(url)
        return get(url, *rest)

    web.get = noted
    again = pickle.loads(pickle.dumps(feed))
    same = again.batch(1)["text"] == feed.batch(1)["text"]
    web.get = get
    listed = [url for url in asked if "/api/" in url]
    return {"text": feed.batch(0)["text"][0], "same": same, "listed": listed, "state": feed.state(1)["fingerprint"]}


if __name__ == "__main__":
    if len(sys.argv) > 3:
        from huggingface_hub import snapshot_download

        snapshot_download(sys.argv[3], repo_type="dataset")
    for run in json.loads(sys.argv[2]):
        print(json.dumps(outcome(Path(sys.argv[1]), run)))
