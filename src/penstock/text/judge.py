"""Which records are items of a chat run, and how many tokens they have; see ``readers.records.judging.Judge``."""

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from penstock.readers.records.judging import Verdict
from penstock.text.errors import Rejected
from penstock.text.formats import Format, Sample
from penstock.text.formats.identity import identity
from penstock.text.holdout import Holdout
from penstock.text.kepttokens import kept_bytes
from penstock.text.labels import NO_LABEL, Encoded
from penstock.text.rendered import Rendered
from penstock.text.texts import RenderedSample, Texts

_VERSION = "6"  # of what is counted
_ADDED_TOKENS = 8  # that a tokenizer may add to a text
NOTHING = "nothing to train on"


class Expand(Protocol):
    """Adds all tokens of its media to a text.

    Attributes:
        key: Digest of all that results depend on, except texts and media.
        folders: Local folders that are searched for media.
    """

    @property
    def key(self) -> str: ...

    @property
    def folders(self) -> str: ...

    def __call__(self, sample: Sample, rendered: Rendered, path: str, /) -> Rendered: ...


class ChatJudge:
    """Accepts records that the format accepts and that have something to train on.

    Texts are tokenized only where somebody needs their lengths or tokens, or where nothing less can tell whether there
    is something to train on. Which records are items is the same either way.

    Args:
        texts: Template and tokenizer.
        format: Format of the source.
        system: System message for conversations without one.
        count: Whether to count the tokens of all items.
        keep: Whether to keep the tokens of all items; implies ``count``.
        holdout: Choice of the records that are held out; None takes all records.
        expand: Function that adds the tokens of media to a text, given the sample and the path of its file; None if
            texts have them already.
    """

    def __init__(
        self,
        texts: Texts,
        format: Format,
        system: str | None,
        *,
        count: bool,
        keep: bool = False,
        holdout: Holdout | None = None,
        expand: Expand | None = None,
    ) -> None:
        self._texts = texts
        self._format = format
        self._system = system
        self.counts = count or keep
        self.keeps = keep
        self._holdout = holdout
        self._expand = expand
        self.leave_out: Sequence[str] = format.media if expand is None else ()
        self.accepts_all = False

    @property
    def key(self) -> str:
        """A digest of all that verdicts depend on, including folders of this machine."""
        folders = "" if self._expand is None else self._expand.folders
        return _digest(f"{self.identity}\n{folders}") if folders else self.identity

    @property
    def identity(self) -> str:
        """A digest of all that the run depends on; the same wherever its media lie."""
        held_out = [] if self._holdout is None else [self._holdout.key]
        expanded = [] if self._expand is None else [self._expand.key]
        options = [self._system or "", *held_out, *expanded]
        about = "\n".join([self._texts.key, identity(self._format), _VERSION, *options])
        return _digest(about)

    def judge(self, records: Sequence[dict[str, Any]], path: str = "") -> Sequence[Verdict]:
        verdicts: list[Verdict | None] = []
        texts: list[RenderedSample] = []
        for record in records:
            if self._holdout is not None and not self._holdout.takes(record, self._format.media):
                verdicts.append(Verdict(self._holdout.reason))
                continue
            try:
                written = self._texts.write(record, self._format, self._system)
                if self._expand is not None:
                    written = written._replace(rendered=self._expand(*written, path))
            except Rejected as error:
                verdicts.append(Verdict(str(error)))
                continue
            if not written.rendered.spans:
                verdicts.append(Verdict(NOTHING))
            elif self.counts or not self._is_certain(written.rendered):
                verdicts.append(None)
                texts.append(written)
            else:
                verdicts.append(Verdict("", losses=written.rendered.losses))
        encoded = self._texts.encode([written.rendered for written in texts])
        counted = iter(map(self._counted, texts, encoded))
        return [next(counted) if verdict is None else verdict for verdict in verdicts]

    def _is_certain(self, rendered: Rendered) -> bool:
        """Return whether a text certainly has something to train on and is not too long, without tokenizing it."""
        try:
            room = self._texts.max_length - _ADDED_TOKENS
            within = rendered.text if self._texts.too_long == "drop" else rendered.text[: rendered.spans[0].end]
            if len(within.encode()) > room:  # a token has at least a byte
                return False
            rendered.text.encode()
        except UnicodeEncodeError:
            return False
        # The first token is never trained, and a tokenizer may drop what is no letter: look for one after a space.
        after = next((at for at, letter in enumerate(rendered.text) if at and letter.isspace()), len(rendered.text))
        return any(map(str.isalnum, rendered.text[max(rendered.spans[0].start, after) : rendered.spans[0].end]))

    def _counted(self, written: RenderedSample, encoded: Encoded | Rejected) -> Verdict:
        if isinstance(encoded, Rejected):
            return Verdict(str(encoded))
        losses = written.rendered.losses
        if not self.counts:
            return Verdict("", losses=losses)
        labels = int(np.count_nonzero(encoded.labels != NO_LABEL))
        kept = kept_bytes(written.sample, written.rendered.text, encoded) if self.keeps else None
        return Verdict("", len(encoded), labels, kept, losses)


def _digest(about: str) -> str:
    return hashlib.sha256(about.encode()).hexdigest()[:16]
