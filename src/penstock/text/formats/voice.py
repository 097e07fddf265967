"""Formats of speech: to be transcribed, and to be generated."""

from penstock.text.errors import Rejected
from penstock.text.formats.columns import Columns, columns_of, first_text
from penstock.text.formats.media import AUDIOS, media_in, one_medium
from penstock.text.formats.messages import turn
from penstock.text.formats.sample import Record, Sample, Tokens
from penstock.text.formats.shapes import listed_of, sample_of

SPEAKERS = ("speaker_ref", "reference_audio")

_TRANSCRIPTS = ("text", "transcript", "transcription", "sentence", "normalized_text", "text_normalized", "raw_text")
_SPOKEN = ("text_normalized", "normalized_text", "transcription_normalised", *_TRANSCRIPTS, "text_original")


def voice_asr(record: Record, _: Tokens) -> Sample:
    """Format a recording and its transcript, or a conversation about recordings."""
    columns = columns_of(record)
    turns = listed_of(columns)
    if turns is None:
        turns = [turn("user", "Transcribe this audio."), turn("assistant", _required(columns, _TRANSCRIPTS))]
    sample = sample_of(turns, columns, {"audio": AUDIOS})
    if "audios" not in sample:
        raise Rejected("no audio")
    sample["has_asr"] = True
    return sample


def voice_tts(record: Record, tokens: Tokens) -> Sample:
    """Format a text that is to be read aloud, with the recording as the target."""
    columns = columns_of(record)
    spoken = _required(columns, _SPOKEN)
    answer = tokens.get("gen_audio", "") + tokens.get("gen_audio_end", "")
    sample: Sample = {
        "messages": [
            {"role": "user", "content": f"Read this text aloud: {spoken}"},
            {"role": "assistant", "content": answer},
        ],
        "target_audio": one_medium(columns, AUDIOS, "audio"),
        "has_tts": True,
    }
    if speaker := media_in(columns, SPEAKERS):
        sample["speaker_ref"] = speaker[0]
    return sample


def _required(columns: Columns, names: tuple[str, ...]) -> str:
    transcript = first_text(columns, names)
    if not transcript:
        raise Rejected("no transcript")
    return transcript
