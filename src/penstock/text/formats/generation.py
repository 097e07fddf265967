"""Formats of images and videos that are to be generated: from words, from an image, or from an image to be changed."""

from typing import Any, Literal

from penstock.text.errors import Rejected
from penstock.text.formats.columns import Columns, columns_of, first_text
from penstock.text.formats.media import IMAGES, VIDEOS, VIDEOS_BY_ID, media_in, one_medium
from penstock.text.formats.sample import Message, Record, Sample, Tokens

START_IMAGES = ("image", "image_prompt", "first_frame")
SOURCE_IMAGES = ("original_image", "source_image", "source_img", "input_image", "image")
EDITED_IMAGES = ("edited_image", "target_image", "target_img", "output_image")

_PROMPTS = ("prompt", "text_prompt", "text", "caption", "prompts", "description", "name", "txt")
_EDITS = ("edit_prompt", "instruction", "edit_instruction", *_PROMPTS)


def generation(record: Record, tokens: Tokens) -> Sample:
    """Format a prompt for a video if the record has one, else for an image."""
    columns = columns_of(record)
    kind: Literal["image", "video"] = "video" if media_in(columns, VIDEOS) else "image"
    return _generated(kind, columns, tokens)


def image_generation(record: Record, tokens: Tokens) -> Sample:
    """Format a prompt for an image. The image itself may be missing."""
    return _generated("image", columns_of(record), tokens)


def video_generation(record: Record, tokens: Tokens) -> Sample:
    """Format a prompt for a video. The video itself may be missing."""
    return _generated("video", columns_of(record), tokens)


def image_to_video(record: Record, tokens: Tokens) -> Sample:
    """Format an image that a video is to be made of, and a prompt."""
    columns = columns_of(record)
    image = one_medium(columns, START_IMAGES, "image")
    sample = _generated("video", columns, tokens)
    return _from_image(sample, image)


def image_editing(record: Record, tokens: Tokens) -> Sample:
    """Format an image and how it is to be changed, with the changed one as the target."""
    columns = columns_of(record)
    source = one_medium(columns, SOURCE_IMAGES, "image")
    edited = one_medium(columns, EDITED_IMAGES, "edited image")
    prompt = _prompt(columns, _EDITS)
    sample = _asked(f"Edit this image: {prompt}", "image", prompt, tokens)
    sample["gen_images"] = [edited]
    return _from_image(sample, source)


def _generated(kind: Literal["image", "video"], columns: Columns, tokens: Tokens) -> Sample:
    prompt = _prompt(columns, _PROMPTS)
    article = "an" if kind == "image" else "a"
    sample = _asked(f"Generate {article} {kind}: {prompt}", kind, prompt, tokens)
    if kind == "image" and (images := media_in(columns, IMAGES)):
        sample["gen_images"] = images
    if kind == "video" and (videos := media_in(columns, VIDEOS_BY_ID)):
        sample["gen_videos"] = videos
    return sample


def _prompt(columns: Columns, names: tuple[str, ...]) -> str:
    prompt = first_text(columns, names)
    if not prompt:
        raise Rejected("no prompt")
    return prompt


def _asked(question: str, kind: Literal["image", "video"], prompt: str, tokens: Tokens) -> Sample:
    answer = tokens.get(f"gen_{kind}", "") + tokens.get(f"gen_{kind}_end", "")
    asked: Message = {"role": "user", "content": question}
    sample: Sample = {"messages": [asked, {"role": "assistant", "content": answer}], "gen_prompts": prompt}
    if kind == "image":
        sample["has_image_gen"] = True
    else:
        sample["has_video_gen"] = True
    return sample


def _from_image(sample: Sample, image: Any) -> Sample:
    """The sample with an image before its question."""
    question = sample["messages"][0]
    question["content"] = [{"type": "image"}, {"type": "text", "text": str(question["content"])}]
    sample["images"] = [image]
    return sample
