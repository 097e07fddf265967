"""Multimodal processors and tiny models of several families, made from their classes: nothing is downloaded.

Video processors of transformers need torchvision, which does not come for CPUs only: families that have one are made
without it.
"""

from functools import cache
from typing import Any

import torch
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3Processor,
    Idefics3Processor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionProcessor,
    LlavaProcessor,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLProcessor,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMProcessor,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from tests.recipes.chat_runs import tokenizer

TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'image' %}IMAGE{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endif %}\
<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
# Content is parts only, a space stands before a text and none before an image, and there is no role token.
SMOLVLM = """<|im_start|>{% for message in messages %}{{ message.role | capitalize }}\
{% if message.content[0].type == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}{% for part in message.content %}\
{% if part.type == 'text' %}{{ part.text }}{% elif part.type == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}\
<end_of_utterance>
{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"""
ROWS_AND_COLUMNS = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]


class WithoutVideos:
    """Before the class of a processor: it no longer insists on a video processor."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
        if argument is None:
            return None
        return super().check_argument_for_proper_class(argument_name, argument)  # type: ignore[misc]


class Qwen2VLWithoutVideos(WithoutVideos, Qwen2VLProcessor):  # type: ignore[misc]
    pass


class LlavaOnevisionWithoutVideos(WithoutVideos, LlavaOnevisionProcessor):  # type: ignore[misc]
    pass


class SmolVLMWithoutVideos(WithoutVideos, SmolVLMProcessor):  # type: ignore[misc]
    pass


@cache
def qwen2_vl() -> Any:
    special = tokenizer("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    template = TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    images = Qwen2VLImageProcessorPil(min_pixels=28 * 28 * 2, max_pixels=28 * 28 * 9)
    return Qwen2VLWithoutVideos(image_processor=images, tokenizer=special, chat_template=template)


@cache
def llava() -> Any:
    return LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer=tokenizer("<image>"),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE.replace("IMAGE", "<image>"),
    )


@cache
def llava_onevision() -> Any:
    """An image alone is also cut into tiles; one of several is not."""
    tiles = [[28, 28], [28, 56], [56, 28], [56, 56]]
    return LlavaOnevisionWithoutVideos(
        image_processor=LlavaOnevisionImageProcessorPil(size={"height": 28, "width": 28}, image_grid_pinpoints=tiles),
        tokenizer=tokenizer("<image>", "<video>"),
        video_processor=None,
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=TEMPLATE.replace("IMAGE", "<image>"),
    )


@cache
def gemma3() -> Any:
    """The template writes another token for an image than those that stand for its patches."""
    names = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    special = tokenizer(*names.values())
    for name, token in names.items():
        setattr(special, name, token)
        setattr(special, f"{name}_id", special.convert_tokens_to_ids(token))
    return Gemma3Processor(
        image_processor=Gemma3ImageProcessorPil(size={"height": 28, "width": 28}),
        tokenizer=special,
        image_seq_length=4,
        chat_template=TEMPLATE.replace("IMAGE", "<start_of_image>"),
    )


@cache
def idefics3() -> Any:
    special = tokenizer("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *ROWS_AND_COLUMNS)
    return Idefics3Processor(
        image_processor=Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32}),
        tokenizer=special,
        image_seq_len=4,
        chat_template=TEMPLATE.replace("IMAGE", "<image>"),
    )


@cache
def smolvlm() -> Any:
    marks = ("<image>", "<video>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
    return SmolVLMWithoutVideos(
        image_processor=SmolVLMImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32}),
        tokenizer=tokenizer(*marks, *ROWS_AND_COLUMNS),
        video_processor=None,
        image_seq_len=4,
        chat_template=SMOLVLM,
    )


FAMILIES = {
    "qwen2-vl": qwen2_vl,
    "llava": llava,
    "llava-onevision": llava_onevision,
    "gemma-3": gemma3,
    "idefics3": idefics3,
    "smolvlm": smolvlm,
}

TEXT = {
    "vocab_size": 1_000,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2_048,
    "initializer_range": 0.2,  # so that positions and images matter
}


def qwen2_vl_model() -> Any:
    special = qwen2_vl()
    torch.manual_seed(5)
    config = Qwen2VLConfig(
        text_config={
            **TEXT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]},
        },
        vision_config={
            "depth": 1,
            "embed_dim": 16,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "initializer_range": 0.2,
        },
        image_token_id=special.image_token_id,
        video_token_id=special.video_token_id,
    )
    return Qwen2VLForConditionalGeneration(config).eval()


def llava_model() -> Any:
    torch.manual_seed(5)
    vision = {
        "model_type": "clip_vision_model",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    config = LlavaConfig(
        vision_config=vision,
        text_config={"model_type": "llama", **TEXT},
        image_token_index=llava().image_token_id,
        vision_feature_select_strategy="default",
    )
    return LlavaForConditionalGeneration(config).eval()


def llava_onevision_model() -> Any:
    torch.manual_seed(5)
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
        "vision_use_head": False,
    }
    config = LlavaOnevisionConfig(
        vision_config=vision,
        text_config={"model_type": "llama", **TEXT},
        image_token_index=llava_onevision().image_token_id,
        image_grid_pinpoints=llava_onevision().image_processor.image_grid_pinpoints,
        vision_feature_layer=-1,
    )
    return LlavaOnevisionForConditionalGeneration(config).eval()


def gemma3_model() -> Any:
    torch.manual_seed(5)
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
        "vision_use_head": False,
    }
    config = Gemma3Config(
        text_config={**TEXT, "head_dim": 8, "sliding_window": 1_024},
        vision_config=vision,
        mm_tokens_per_image=4,
        image_token_id=gemma3().tokenizer.image_token_id,
    )
    model = Gemma3ForConditionalGeneration(config).eval()
    projector = model.model.multi_modal_projector
    torch.nn.init.normal_(projector.mm_input_projection_weight)  # zeros at first, and images would not matter
    return model


def smolvlm_model() -> Any:
    torch.manual_seed(5)
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    }
    config = SmolVLMConfig(
        vision_config=vision,
        text_config={"model_type": "llama", **TEXT},
        image_token_id=smolvlm().image_token_id,
        scale_factor=2,
    )
    return SmolVLMForConditionalGeneration(config).eval()


MODELS = {
    "qwen2-vl": qwen2_vl_model,
    "llava": llava_model,
    "llava-onevision": llava_onevision_model,
    "gemma-3": gemma3_model,
    "smolvlm": smolvlm_model,
}
