"""What a format returns: the contract between formats, templates and recipes."""

from collections.abc import Mapping
from typing import Any, Literal, Required, TypedDict

Record = Mapping[str, Any]
"""The columns of a record."""
Tokens = Mapping[str, str]
"""Special tokens by name, such as ``user_start``; empty where the tokenizer's chat template is used."""

Role = Literal["system", "user", "assistant", "tool"]
Kind = Literal["image", "video", "audio"]

FLAGS = ("has_image_gen", "has_video_gen", "has_asr", "has_tts")
"""The keys of a ``Sample`` that are true or false."""


class ContentPart(TypedDict, total=False):
    """A piece of a message: text, or the place of a medium."""

    type: Required[Literal["text", "image", "video", "audio"]]
    text: str


class Function(TypedDict):
    """The function that a tool call names, and its arguments."""

    name: str
    arguments: dict[str, Any]


class ToolCall(TypedDict, total=False):
    """A call of a tool by the assistant. Some chat templates need its ``id``."""

    type: Required[Literal["function"]]
    function: Required[Function]
    id: str


class Message(TypedDict, total=False):
    """One turn of a conversation.

    Attributes:
        role: Role of the speaker.
        content: Text, or parts if the turn has media.
        tool_calls: Tool calls of the assistant.
        reasoning_content: Reasoning of the assistant before its answer.
        name: Name of the speaker, or of the tool that answers.
        tool_call_id: Id of the call that a tool answers.
        train: Whether this turn is trained, in place of ``train_on``.
        weight: Loss weight of this turn.
    """

    role: Required[Role]
    content: Required[str | list[ContentPart]]
    tool_calls: list[ToolCall]
    reasoning_content: str
    name: str
    tool_call_id: str
    train: bool
    weight: float


class Sample(TypedDict, total=False):
    """A record after its format. It has either ``messages`` or ``text``.

    Attributes:
        messages: Conversation.
        text: Text with its special tokens.
        tools: JSON schemas of the tools that the assistant may call.
        images: Images as the record has them, in the order of their parts.
        videos: Videos, likewise.
        audios: Sounds, likewise.
        target_audio: Recording to be generated.
        speaker_ref: Recording of the voice to be used.
        gen_images: Images to be generated.
        gen_videos: Videos to be generated.
        gen_prompts: Description of what is to be generated.
        dtype: Name of the format.
        has_image_gen: Whether an image is to be generated.
        has_video_gen: Whether a video is to be generated.
        has_asr: Whether speech is to be transcribed.
        has_tts: Whether speech is to be generated.
    """

    messages: list[Message]
    text: str
    tools: list[dict[str, Any]]
    images: list[Any]
    videos: list[Any]
    audios: list[Any]
    target_audio: Any
    speaker_ref: Any
    gen_images: list[Any]
    gen_videos: list[Any]
    gen_prompts: str
    dtype: str
    has_image_gen: bool
    has_video_gen: bool
    has_asr: bool
    has_tts: bool
