"""The keys of a ``tokens`` dict, by what they enclose."""

SYSTEM = ("system_start", "system_end")
USER = ("user_start", "user_end")
ASSISTANT = ("assistant_start", "assistant_end")
TOOL_CALL = ("tool_call", "tool_call_end")
IMAGE = ("image_start", "image_end")
VIDEO = ("video_start", "video_end")
AUDIO = ("audio_start", "audio_end")
GEN_IMAGE = ("gen_image", "gen_image_end")
GEN_VIDEO = ("gen_video", "gen_video_end")
GEN_AUDIO = ("gen_audio", "gen_audio_end")

TURNS = SYSTEM + USER + ASSISTANT
