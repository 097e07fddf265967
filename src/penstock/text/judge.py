"""Which records are items of a chat run, and how many tokens they have; see ``readers.records.judging.Judge``."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.readers.records.judging import Verdict
from penstock.text.errors import Rejected
from penstock.text.formats import Format, Sample
from penstock.text.formats.identity import identity
from penstock.text.holdout import Holdout
from penstock.text.labels import NO_LABEL
from penstock.text.rendered import Rendered
from penstock.text.texts import Texts

_VERSION = "2"  # of what is counted
_ADDED_TOKENS = 8  # that a tokenizer may add to a text
NOTHING = "nothing to train on"


Expand = Callable[[Sample, Rendered, str], Rendered]


class ChatJudge:
    """Accepts what its format accepts and what has something to train on.

    Tokens are counted only where somebody needs them, or where only they can tell whether a long text is of use.

    Args:
        texts: template and tokenizer.
        format: of the source.
        system: the system message of conversations that have none.
        count: whether to count the tokens of all items.
        holdout: which records are not for this run; None: all are.
        expand: returns a text with all the tokens that stand for its media, given the sample and the path of the file
            that it lies in; None if texts have all of them.
    """

    def __init__(
        self,
        texts: Texts,
        format: Format,
        system: str | None,
        *,
        count: bool,
        holdout: Holdout | None = None,
        expand: Expand | None = None,
    ) -> None:
        self._texts = texts
        self._format = format
        self._system = system
        self._count = count
        self._holdout = holdout
        self._expand = expand
        self.leave_out: Sequence[str] = format.media if expand is None else ()
        self.accepts_all = False

    @property
    def key(self) -> str:
        options = [
            _VERSION,
            self._system or "",
            str(self._count),
            *([] if self._holdout is None else [repr(self._holdout)]),
        ]
        about = "\n".join([self._texts.key, identity(self._format), *options])
        return hashlib.sha256(about.encode()).hexdigest()[:16]

    def judge(self, records: Sequence[dict[str, Any]], path: str = "") -> Sequence[Verdict]:
        verdicts: list[Verdict | None] = []
        texts: list[Rendered] = []
        for record in records:
            if self._holdout is not None and not self._holdout.takes(record, self._format.media):
                verdicts.append(Verdict(self._holdout.reason))
                continue
            try:
                sample, rendered = self._texts.write(record, self._format, self._system)
                if self._expand is not None:
                    rendered = self._expand(sample, rendered, path)
            except Rejected as error:
                verdicts.append(Verdict(str(error)))
                continue
            if not rendered.spans:
                verdicts.append(Verdict(NOTHING))
            elif self._count or self._is_long(rendered):
                verdicts.append(None)
                texts.append(rendered)
            else:
                verdicts.append(Verdict(""))
        counted = iter(self._texts.encode(texts))
        return [self._counted(next(counted)) if verdict is None else verdict for verdict in verdicts]

    def _is_long(self, rendered: Rendered) -> bool:
        """Return whether the text might be dropped, or cut before all that is trained. A token has a byte at least."""
        room = self._texts.max_length - _ADDED_TOKENS
        if self._texts.too_long == "drop":
            return len(rendered.text.encode(errors="replace")) > room
        return len(rendered.text[: rendered.spans[0].end].encode(errors="replace")) > room

    def _counted(self, encoded: Any) -> Verdict:
        if isinstance(encoded, Rejected):
            return Verdict(str(encoded))
        if not self._count:
            return Verdict("")
        return Verdict("", len(encoded), labels=int(np.count_nonzero(encoded.labels != NO_LABEL)))
