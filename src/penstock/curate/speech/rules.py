"""The rules by which a clip is dropped. Pure: from measurements to the first rule that a clip breaks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.curate.speech.where import Condition
from penstock.media.audio.quality import Quality
from penstock.readers.tar.explain import MAX_SECONDS


@dataclass(frozen=True, slots=True)
class MeasuredClip:
    """What is known of one clip that could be decoded. ``fields`` are those of its .json."""

    language: str
    quality: Quality
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Drop:
    """The rule that a clip breaks, which is counted, and why it breaks it."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds are inclusive. The defaults drop only what no filelist can hold."""

    seconds: tuple[float, float] = (0.0, MAX_SECONDS)
    max_clipping: float = 1.0
    max_silence: float = 1.0
    min_snr: float = -math.inf
    languages: frozenset[str] | None = None
    where: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        least, most = self.seconds
        if not 0 <= least <= most <= MAX_SECONDS:
            raise ValueError(
                f"seconds {least:g} to {most:g}: must be within 0 to {MAX_SECONDS:,.0f}, lower bound first"
            )
        for name, share in (("clipping", self.max_clipping), ("silence", self.max_silence)):
            if not 0 <= share <= 1:
                raise ValueError(f"the maximum share of {name} must be between 0 and 1, not {share:g}")

    def broken_by(self, clip: MeasuredClip) -> Drop | None:
        """Return the first rule that the clip breaks, so that every dropped clip is counted once, or None."""
        quality = clip.quality
        least, most = self.seconds
        if self.languages is not None and clip.language not in self.languages:
            return Drop("language", clip.language)
        if quality.seconds < least:
            return Drop(f"shorter than {least:g} s", f"{quality.seconds:.2f} s")
        if quality.seconds > most:
            return Drop(f"longer than {most:g} s", f"{quality.seconds:.2f} s")
        for condition in self.where:
            failure = condition.failure(clip.fields)
            if failure:
                return Drop(f"where {condition}", failure)
        if quality.clipping > self.max_clipping:
            return Drop(f"clipping over {self.max_clipping:g}", f"{quality.clipping:.4f} of its samples")
        if quality.silence > self.max_silence:
            return Drop(f"silence over {self.max_silence:g}", f"{quality.silence:.2f} of its frames")
        if quality.snr < self.min_snr:
            return Drop(f"SNR under {self.min_snr:g} dB", f"{quality.snr:.1f} dB")
        return None
