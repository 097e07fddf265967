"""What an index of chat records costs: finding lines, judging records, counting tokens, and reading kept tokens.

python benchmarks/chat_index.py [--out benchmarks/results]

Rates are per second of CPU time of all threads, so that a busy machine changes little. Each is the median of some
rounds.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from labels import CHATML, TOKENS, made_samples, made_tokenizer

from penstock.readers.ranges import Ranges
from penstock.readers.records.files.filebytes import StoredBytes
from penstock.readers.records.files.jsonfile import JsonLines
from penstock.readers.records.judging import index_segment
from penstock.store.local import LocalStore
from penstock.text.formats import find
from penstock.text.judge import ChatJudge
from penstock.text.kepttokens import kept_tokens
from penstock.text.texts import Texts

SCANNED_BYTES = 128 << 20
CONVERSATIONS = 1_500
ROUNDS = 5


def cpu_seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def median_rates(jobs: dict[str, tuple[float, Callable[[], Any]]]) -> dict[str, float]:
    """The amount of each job per second of CPU time, as the median of some rounds.

    Jobs take turns, so that all of them meet the same neighbours. The first round warms up.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(ROUNDS + 1):
        for name, (_, call) in jobs.items():
            seconds[name].append(cpu_seconds(call))
    return {name: amount / statistics.median(seconds[name][1:]) for name, (amount, _) in jobs.items()}


def segments(file: JsonLines) -> Iterator[tuple[int, int]]:
    number = 0
    mark: int | None = 0
    while mark is not None:
        yield number, mark
        mark = file.segment(number, mark).mark
        number += 1


def measure(folder: Path) -> dict[str, float]:
    random.seed(1)
    samples = made_samples(CONVERSATIONS)
    tokenizer = made_tokenizer(samples[:300])
    tokenizer.chat_template = CHATML
    lines = "".join(json.dumps(sample) + "\n" for sample in samples).encode()
    (folder / "scanned.jsonl").write_bytes(lines * (SCANNED_BYTES // len(lines)))
    (folder / "judged.jsonl").write_bytes(lines)
    store = LocalStore(folder)
    ranges = Ranges(lambda: store)
    scanned = JsonLines(StoredBytes("scanned.jsonl", ranges))
    judged = JsonLines(StoredBytes("judged.jsonl", ranges))
    texts = Texts(tokenizer, max_length=8_192)
    marked = Texts(tokenizer, tokens=TOKENS, max_length=8_192)
    format = find("conversation")
    rendered = [texts.write(sample, format, None).rendered for sample in samples]
    written = [each.text for each in rendered]
    size = sum(len(text.encode()) for text in written)

    def judge(by_texts: Texts = texts, **depth: bool) -> list[Any]:
        by = ChatJudge(by_texts, format, None, **depth)
        return [index_segment(judged, number, mark, by) for number, mark in segments(judged)]

    backend = tokenizer.backend_tokenizer
    scanned_bytes = (folder / "scanned.jsonl").stat().st_size
    kept = [each for segment in judge(count=True, keep=True) for each in segment.kept]
    megabytes = size / 1e6
    return median_rates(
        {
            "lines_gb_per_s": (scanned_bytes / 1e9, lambda: list(segments(scanned))),
            "verdicts_per_s": (CONVERSATIONS, lambda: judge(count=False)),
            "tokenizer_alone_mb_per_s": (megabytes, lambda: backend.encode_batch(written)),
            "lengths_mb_per_s": (megabytes, lambda: judge(count=True)),
            "lengths_with_a_dict_of_tokens_mb_per_s": (megabytes, lambda: judge(marked, count=True)),
            "lengths_and_tokens_mb_per_s": (megabytes, lambda: judge(count=True, keep=True)),
            "kept_tokens_per_s": (CONVERSATIONS, lambda: [kept_tokens(each) for each in kept]),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    for name in ("lengths", "lengths_with_a_dict_of_tokens"):
        found[f"{name}_share_of_tokenizer"] = found[f"{name}_mb_per_s"] / found["tokenizer_alone_mb_per_s"]
    rounded = {name: float(f"{value:.3g}") for name, value in found.items()}
    print(json.dumps(rounded, indent=2))
    (out / "chat_index.json").write_text(json.dumps(rounded, indent=2) + "\n")


if __name__ == "__main__":
    main()
