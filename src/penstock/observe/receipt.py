"""A receipt: a file of some kilobytes that commits to the samples of a run. Knows hashes; knows nothing of feeds.

root                    SHA-256 of 0x01 and two nodes, as in RFC 6962; the last of an odd number moves up unchanged
└ subtrees, up to 128   of as many consecutive steps each as possible; these are in the receipt
  └ leaves              SHA-256 of 0x00 and a text per step: see ``leaf``
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.runtime.atomicwrite import write_atomically

_SUBTREES = 128
_SHOWN_SOURCES = 8
_Count = Annotated[int, Field(ge=0, lt=1 << 62)]

Content = Literal["sha256", "crc32", "version", "ids"]
"""How well the content of samples is known: by checksums, by versions of the files that hold them, or not at all."""

CONTENTS: dict[Content, str] = {
    "sha256": "SHA-256 of the content",
    "crc32": "CRC-32 of the content",
    "version": "versions (ETags) of files",
    "ids": "ids only",
}
"""Names of contents in messages, strongest first."""

PLANNED = (
    "It proves which samples the run was planned to use in these steps, and what identified their content. "
    "It cannot prove that training happened."
)
AGREED = (
    "It proves which samples the run was planned to use in these steps, what identified their content, and that the "
    "usage ledger agreed. It cannot prove that training happened: the ledger is written by the run itself."
)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ReceiptSource(_Section):
    """A source in a receipt.

    Attributes:
        name: Name of the source.
        samples: Number of its samples in the steps of the receipt.
        content: How well their content is known.
    """

    name: str
    samples: _Count
    content: Content


class LedgerFile(_Section):
    """A ledger as it was read: a run may have appended to it since.

    Attributes:
        name: Name of the file.
        size: Number of bytes.
        sha256: SHA-256 of these bytes.
    """

    name: str
    size: _Count
    sha256: str


class CheckedLedger(_Section):
    """The ledgers of a receipt, which agreed with the plan.

    Attributes:
        files: Ledgers of the run, one per node.
        covers: Descriptions of the steps and ranks that were checked.
        bad: Number of bad samples by outcome, such as ``replaced``.
    """

    files: list[LedgerFile]
    covers: list[str]
    bad: dict[str, _Count]


class Receipt(_Section):
    """A receipt.

    Attributes:
        penstock_receipt: Version of the format.
        says: What it proves, in words.
        config: Config of the run, relative to the folder of the receipt.
        steps: First step, and the step after the last.
        samples: Number of samples in these steps.
        state: State of the run after the last step: its fingerprint and batch sizes.
        sources: Sources with samples in these steps.
        ledger: Ledgers that agreed with the plan; None if none was checked.
        root: Root of the hash tree, hexadecimal.
        subtrees: Roots of its subtrees, base64.
        seal: SHA-256 of all other keys as JSON with sorted keys and without spaces, hexadecimal.
    """

    penstock_receipt: Literal[1]
    says: str
    config: str
    steps: Annotated[list[_Count], Field(min_length=2, max_length=2)]
    samples: _Count
    state: dict[str, Any]
    sources: list[ReceiptSource]
    ledger: CheckedLedger | None
    root: str
    subtrees: list[str]
    seal: str = ""

    def sealed(self) -> "Receipt":
        """Return the receipt with its seal."""
        values = self.model_dump(exclude={"seal"})
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return self.model_copy(update={"seal": hashlib.sha256(text.encode()).hexdigest()})

    def step_range(self) -> range:
        return range(*self.steps)

    def roots(self) -> list[bytes]:
        """Return the roots of the subtrees."""
        return [base64.b64decode(text) for text in self.subtrees]


def read_receipt(path: Path) -> Receipt:
    """Read a receipt.

    Raises:
        ValueError: If the file is not a receipt, or incomplete.
    """
    try:
        receipt = Receipt.model_validate_json(path.read_bytes())
        whole = len(receipt.subtrees) == len(subtree_steps(receipt.step_range())) > 0
        whole = whole and receipt.state.get("step") == receipt.steps[1]
        if whole and all(len(root) == hashlib.sha256().digest_size for root in receipt.roots()):
            return receipt
    except ValueError:  # or ValidationError, which is one
        pass
    raise ValueError(f"{path}: not a receipt of `penstock receipt`, incomplete, or of a later release")


def write_receipt(receipt: Receipt, path: Path) -> None:
    """Write a receipt as JSON, one line per key."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in receipt.model_dump().items()]
    write_atomically(path, [b"{\n", ",\n".join(lines).encode(), b"\n}\n"], sync=True)


def subtree_steps(steps: range) -> list[range]:
    """Return the steps of each subtree."""
    count = min(_SUBTREES, len(steps))
    bounds = [steps.start + number * len(steps) // count for number in range(count + 1)]
    return [range(first, after) for first, after in pairwise(bounds)]


def leaf(step: int, samples: Sequence[tuple[str, str, str] | None]) -> bytes:
    """Return the hash of a step.

    The text is JSON without spaces, in ASCII: ``[7,[["hindi","a/0:sample7","txt:…"],null]]``.

    Args:
        step: Step.
        samples: Source, ``group:id`` and what identifies the content of each sample, in the order of the global batch.
            None for padding.
    """
    text = json.dumps([step, samples], separators=(",", ":"))
    return hashlib.sha256(b"\0" + text.encode()).digest()


def tree_root(nodes: Iterable[bytes]) -> bytes:
    """Return the root over some hashes, at least one."""
    level = list(nodes)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [hashlib.sha256(b"\1" + left + right).digest() for left, right in pairs] + level[len(level) & ~1 :]
    return level[0]


def describe_contents(receipt: Receipt) -> str:
    """Describe how well the content of each source is known, and what the ledger says."""
    lines = []
    for content, text in CONTENTS.items():
        names = [source.name for source in receipt.sources if source.content == content]
        if names:
            more = f" and {len(names) - _SHOWN_SOURCES:,} more" if names[_SHOWN_SOURCES:] else ""
            lines.append(f"{text}: {', '.join(names[:_SHOWN_SOURCES])}{more}")
    if receipt.ledger is None:
        lines.append("ledger: none was checked")
    else:
        bad = ", ".join(f"{count:,} {outcome}" for outcome, count in receipt.ledger.bad.items())
        lines.append(f"ledger: {'; '.join(receipt.ledger.covers)}; bad samples: {bad or 'none'}")
    return "\n".join(lines)
