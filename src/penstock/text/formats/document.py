"""The eight format functions of the multimodal data module, exactly as its documentation specifies them.

They return a dict for every record and look at nothing but the columns named here. Unknown roles are left out. Richer
shapes, and reasons for records that cannot be used, belong to the formats in ``builtin.py``.
"""

import json
from typing import Any

from penstock.text.formats.format import ASSISTANT, SYSTEM, TOOL_CALL, USER, Format
from penstock.text.formats.sample import Record, Tokens
from penstock.text.mediakinds import AUDIO, GEN_AUDIO, GEN_IMAGE, GEN_VIDEO, IMAGE, VIDEO

_SYSTEM_ROLES = ("system", "instruction")
_USER_ROLES = ("user", "human")
_ASSISTANT_ROLES = ("assistant", "gpt", "bot")


def format_code(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format an instruction and its code (``instruction`` or ``prompt``; ``output``, ``code`` or ``response``)."""
    instruction = sample.get("instruction", sample.get("prompt", ""))
    code = sample.get("output", sample.get("code", sample.get("response", "")))
    language = sample.get("language", "python")
    system = _system("You are an expert programmer. Write clean, efficient code.", tokens)
    answer = _assistant(f"```{language}\n{code}\n```", tokens)
    return {"text": system + _user(instruction, tokens) + answer, "dtype": "code"}


def format_conversation(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format the turns of ``messages`` or ``conversations``, in ``role``/``content`` or ``from``/``value`` style."""
    turns = []
    for message in sample.get("messages", sample.get("conversations", [])):
        role = message.get("role", message.get("from", ""))
        content = message.get("content", message.get("value", ""))
        if role in _SYSTEM_ROLES:
            turns.append(_system(content, tokens))
        elif role in _USER_ROLES:
            turns.append(_user(content, tokens))
        elif role in _ASSISTANT_ROLES:
            turns.append(_assistant(content, tokens))
    return {"text": "".join(turns), "dtype": "conversation"}


def format_tool_use(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format a query, the tools as JSON, and the response as a tool call."""
    query = sample.get("query", sample.get("instruction", ""))
    tools = sample.get("tools", sample.get("functions", []))
    response = sample.get("response", sample.get("output", ""))
    listed = json.dumps(tools, indent=2) if tools else ""
    system = _system(f"You have access to the following tools:\n{listed}", tokens)
    call = f"{tokens['tool_call']}{response}{tokens['tool_call_end']}"
    return {"text": system + _user(query, tokens) + _assistant(call, tokens), "dtype": "tool_use"}


def format_vision(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format a question about an image, and its answer."""
    image = sample.get("image")
    text = _asked(f"{tokens['image_start']}{tokens['image_end']}", sample, tokens)
    return {"text": text, "image": image, "dtype": "vision"}


def format_video(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format a question about a video (``video`` or ``video_path``), and its answer."""
    video = sample.get("video", sample.get("video_path"))
    text = _asked(f"{tokens['video_start']}{tokens['video_end']}", sample, tokens)
    return {"text": text, "video": video, "dtype": "video"}


def format_voice_asr(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format a recording and its transcript (``text`` or ``transcript``)."""
    audio = sample.get("audio")
    transcript = sample.get("text", sample.get("transcript", ""))
    question = f"{tokens['audio_start']}{tokens['audio_end']}Transcribe this audio."
    text = _user(question, tokens) + _assistant(transcript, tokens)
    return {"text": text, "audio": audio, "dtype": "voice_asr", "has_asr": True}


def format_voice_tts(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format a text (``text`` or ``transcript``) that is to be read aloud, with the recording as the target."""
    spoken = sample.get("text", sample.get("transcript", ""))
    audio = sample.get("audio")
    speaker = sample.get("speaker_ref", sample.get("reference_audio"))
    answer = f"{tokens['gen_audio']}{tokens['gen_audio_end']}"
    text = _user(f"Read this text aloud: {spoken}", tokens) + _assistant(answer, tokens)
    return {"text": text, "target_audio": audio, "speaker_ref": speaker, "dtype": "voice_tts", "has_tts": True}


def format_generation(sample: Record, tokens: Tokens) -> dict[str, Any]:
    """Format a prompt (``prompt`` or ``text``) for a video if the record has one, else for an image."""
    prompt = sample.get("prompt", sample.get("text", ""))
    image = sample.get("image")
    video = sample.get("video")
    if video is not None:
        answer = f"{tokens['gen_video']}{tokens['gen_video_end']}"
        text = _user(f"Generate a video: {prompt}", tokens) + _assistant(answer, tokens)
        made = {"gen_videos": video, "has_video_gen": True}
    else:
        answer = f"{tokens['gen_image']}{tokens['gen_image_end']}"
        text = _user(f"Generate an image: {prompt}", tokens) + _assistant(answer, tokens)
        made = {"gen_images": image, "has_image_gen": True}
    return {"text": text, "gen_prompts": prompt, "dtype": "generation", **made}


def _asked(medium: str, sample: Record, tokens: Tokens) -> str:
    question = sample.get("question", sample.get("prompt", ""))
    answer = sample.get("answer", sample.get("response", ""))
    return _user(f"{medium}{question}", tokens) + _assistant(answer, tokens)


def _system(content: Any, tokens: Tokens) -> str:
    return f"{tokens['system_start']}{content}{tokens['system_end']}"


def _user(content: Any, tokens: Tokens) -> str:
    return f"{tokens['user_start']}{content}{tokens['user_end']}"


def _assistant(content: Any, tokens: Tokens) -> str:
    return f"{tokens['assistant_start']}{content}{tokens['assistant_end']}"


_TURN = USER + ASSISTANT
DOCUMENT = {
    each.dtype: each
    for each in (
        Format("code", "text", format_code, tokens=SYSTEM + _TURN, accepts_all=True, version=1),
        # These two raise where the turns are no list of dicts, or the tools are no JSON.
        Format("conversation", "text", format_conversation, tokens=SYSTEM + _TURN, version=1),
        Format("tool_use", "text", format_tool_use, tokens=SYSTEM + _TURN + TOOL_CALL, version=1),
        Format(
            "vision", "image", format_vision, tokens=_TURN + IMAGE.tokens, media=("image",), accepts_all=True, version=1
        ),
        Format(
            "video",
            "video",
            format_video,
            tokens=_TURN + VIDEO.tokens,
            media=("video", "video_path"),
            accepts_all=True,
            version=1,
        ),
        Format(
            "voice_asr",
            "audio",
            format_voice_asr,
            tokens=_TURN + AUDIO.tokens,
            media=("audio",),
            accepts_all=True,
            version=1,
        ),
        Format(
            "voice_tts",
            "audio",
            format_voice_tts,
            tokens=_TURN + GEN_AUDIO.tokens,
            media=("audio", "speaker_ref", "reference_audio"),
            accepts_all=True,
            version=1,
        ),
        Format(
            "generation",
            "image",
            format_generation,
            tokens=_TURN + GEN_IMAGE.tokens + GEN_VIDEO.tokens,
            media=("image", "video"),
            accepts_all=True,
            version=1,
        ),
    )
}
"""The eight functions by dtype, with what they use."""
