"""The built-in formats: which dtypes there are, and what each uses."""

from penstock.text.formats import chat, generation, vision, voice
from penstock.text.formats.format import ASSISTANT, TOOL_CALL, TURNS, Format
from penstock.text.formats.media import ALL_MEDIA, AUDIOS, IMAGES, VIDEOS
from penstock.text.mediakinds import AUDIO, GEN_AUDIO, GEN_IMAGE, GEN_VIDEO, IMAGE, VIDEO

_IMAGES = (*ALL_MEDIA, *IMAGES)
_VIDEOS = (*ALL_MEDIA, *VIDEOS)
_AUDIOS = (*ALL_MEDIA, *AUDIOS)
_EDITING = (*generation.SOURCE_IMAGES, *generation.EDITED_IMAGES)
_TOOLS = TURNS + TOOL_CALL

BUILTIN = (
    Format("text", "text", chat.text, ASSISTANT, version=1),
    Format("conversation", "text", chat.conversation, TURNS, ALL_MEDIA, version=1),
    Format("code", "text", chat.code, TURNS, ALL_MEDIA, system=chat.CODE_SYSTEM, version=1),
    Format("tool_use", "text", chat.tool_use, _TOOLS, ALL_MEDIA, version=1),
    Format("agentic", "text", chat.conversation, _TOOLS, ALL_MEDIA, version=1),
    Format("chain_of_thought", "text", chat.chain_of_thought, TURNS, ALL_MEDIA, version=1),
    Format("documents", "text", chat.conversation, TURNS, ALL_MEDIA, version=1),
    Format("anti_hallucination", "text", chat.conversation, TURNS, ALL_MEDIA, version=1),
    Format("git", "text", chat.git, TURNS, ALL_MEDIA, version=1),
    Format("code_execution", "text", chat.conversation, TURNS, ALL_MEDIA, version=1),
    Format("vision", "image", vision.vision, TURNS + IMAGE.tokens, _IMAGES, version=1),
    Format("image_caption", "image", vision.image_caption, TURNS + IMAGE.tokens, _IMAGES, version=1),
    Format("image_vqa", "image", vision.image_vqa, TURNS + IMAGE.tokens, _IMAGES, version=1),
    Format("ui_to_code", "image", vision.ui_to_code, TURNS + IMAGE.tokens, _IMAGES, version=1),
    Format("video", "video", vision.video, TURNS + VIDEO.tokens, _VIDEOS, version=1),
    Format("video_caption", "video", vision.video_caption, TURNS + VIDEO.tokens, _VIDEOS, version=1),
    Format("video_qa", "video", vision.video_qa, TURNS + VIDEO.tokens, _VIDEOS, version=1),
    Format("voice_asr", "audio", voice.voice_asr, TURNS + AUDIO.tokens, _AUDIOS, version=1),
    Format("voice_tts", "audio", voice.voice_tts, TURNS + GEN_AUDIO.tokens, (*AUDIOS, *voice.SPEAKERS), version=1),
    Format(
        "generation",
        "image",
        generation.generation,
        TURNS + GEN_IMAGE.tokens + GEN_VIDEO.tokens,
        (*IMAGES, *VIDEOS),
        version=1,
    ),
    Format("image_generation", "image", generation.image_generation, TURNS + GEN_IMAGE.tokens, IMAGES, version=1),
    Format(
        "image_editing", "image", generation.image_editing, TURNS + IMAGE.tokens + GEN_IMAGE.tokens, _EDITING, version=1
    ),
    Format("video_generation", "video", generation.video_generation, TURNS + GEN_VIDEO.tokens, VIDEOS, version=1),
    Format(
        "image_to_video",
        "video",
        generation.image_to_video,
        TURNS + IMAGE.tokens + GEN_VIDEO.tokens,
        (*generation.START_IMAGES, *VIDEOS),
        version=1,
    ),
)
