"""What an index of chat records costs beside the tokenizer: its speed as a share of the tokenizer alone.

python benchmarks/chat_index.py [--conversations 6_000] [--rounds 5] [--profile]

Time is CPU time of one thread. The index reads and parses JSON lines, writes texts with a chat template, tokenizes them
and makes labels, and keeps lengths, or lengths and tokens. The tokenizer alone gets the same texts, 1,024 per call:
bare (``encode_batch_fast`` of tokenizers, whose result nobody looks at), or called as users of transformers do.
"""

import argparse
import cProfile
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from labels import BLOCKS, CHATML, made_samples, made_tokenizer

from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.files.recordfile import RecordFile
from penstock.readers.records.judging import index_segment
from penstock.store.local import LocalStore
from penstock.text.formats import find
from penstock.text.judge import ChatJudge
from penstock.text.texts import Texts

BATCH = 1_024


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def index(file: RecordFile, judge: ChatJudge) -> None:
    for number in range(file.count() or 0):
        index_segment(file, number, 0, judge)


def tokenize(backend: Any, texts: list[str]) -> None:
    for at in range(0, len(texts), BATCH):
        backend.encode_batch_fast(texts[at : at + BATCH], add_special_tokens=False)


def call(tokenizer: Any, texts: list[str]) -> None:
    for at in range(0, len(texts), BATCH):
        tokenizer(texts[at : at + BATCH], add_special_tokens=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    random.seed(0)
    samples = made_samples(options.conversations)
    tokenizer = made_tokenizer(samples[:2_000])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in samples))
        store = LocalStore(folder)
        derive: Any = None  # JSON lines are read as they are
        files = RecordFiles(lambda: store, derive, Path(folder) / "metadata")
        file = files.open("chat.jsonl")
        print("template      keeps         bare   called   (share of the tokenizer alone)")
        for name, template in (("ChatML", CHATML), ("generation", BLOCKS)):
            tokenizer.chat_template = template
            texts = Texts(tokenizer, max_length=4_096)
            format = find("conversation")
            written = [texts.write(each, format, None).rendered.text for each in samples]
            for keep in (False, True):
                judge = ChatJudge(texts, format, None, count=True, keep=keep)
                index(file, judge)
                shares = []
                for _ in range(options.rounds):
                    own = seconds(partial(index, file, judge))
                    bare = seconds(partial(tokenize, tokenizer.backend_tokenizer, written))
                    called = seconds(partial(call, tokenizer, written))
                    shares.append((bare / own, called / own))
                of_bare, of_called = (statistics.median(column) for column in zip(*shares, strict=True))
                print(f"{name:13} {'tokens' if keep else 'lengths':9} {of_bare:8.0%} {of_called:8.0%}")
                if options.profile:
                    cProfile.runctx("index(file, judge)", globals(), {"file": file, "judge": judge}, sort="tottime")


if __name__ == "__main__":
    main()
