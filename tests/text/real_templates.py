"""Chat templates that models are published with, each with a tokenizer that has the tokens which it names."""

import importlib.util
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.text.made_tokenizers import byte_level

HERE = Path(__file__).parents[1] / "data" / "chat" / "templates"
MISSING = (
    "the text of this template is not in the repository: install trl 1.16.0, or set TRL_TEMPLATES to a folder of it"
)
# What models have as added tokens. Tags in lower case are text, but for those of reasoning and tool calls.
_ADDED = re.compile(
    r"<[|｜][^<>\s|｜'\"{}+]+[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|\[/?[A-Z_]{3,}\]"
    r"|</?(?:s|think|tool_call|start_of_turn|end_of_turn|end_of_utterance|image|start_of_image)>"
)


class Model(NamedTuple):
    """The models of a template, and their token for the end of a text."""

    title: str
    eos: str
    bos: str = "<s>"


MODELS = {
    "cohere": Model("Aya Expanse", "<|END_OF_TURN_TOKEN|>"),
    "cohere2": Model("Command R7B, Tiny Aya", "<|END_OF_TURN_TOKEN|>"),
    "deepseek_r1_distill": Model("DeepSeek-R1-Distill", "<｜end▁of▁sentence｜>"),
    "deepseekv3": Model("DeepSeek-V3", "<｜end▁of▁sentence｜>"),
    "diffusion_gemma": Model("DiffusionGemma", "<eos>", "<bos>"),
    "gemma": Model("Gemma, Gemma 2", "<eos>", "<bos>"),
    "gemma3": Model("Gemma 3", "<eos>", "<bos>"),
    "gemma4_v5": Model("Gemma 4", "<eos>", "<bos>"),
    "glm4moe": Model("GLM-4.5", "<|endoftext|>"),
    "gptoss": Model("gpt-oss", "<|return|>"),
    "idefics3": Model("Idefics3", "<end_of_utterance>"),
    "lfm2": Model("LFM2", "<|im_end|>"),
    "lfm2_2_5_v2": Model("LFM2.5", "<|im_end|>"),
    "lfm2_2_5_vl": Model("LFM2.5-VL", "<|im_end|>"),
    "llama3": Model("Llama 3", "<|eot_id|>"),
    "llama3_1": Model("Llama 3.1", "<|eot_id|>"),
    "llama3_2": Model("Llama 3.2", "<|eot_id|>"),
    "llava_next": Model("LLaVA-NeXT (Mistral)", "</s>"),
    "muse_glimmer": Model("Muse Glimmer", "<|eot|>"),
    "nemotron_3_5_lightning": Model("Nemotron 3.5 Lightning", "<|im_end|>"),
    "nemotron_3_nano": Model("Nemotron 3 Nano", "<|im_end|>"),
    "nemotron_3_super": Model("Nemotron 3 Super", "<|im_end|>"),
    "nemotron_3_ultra": Model("Nemotron 3 Ultra", "<|im_end|>"),
    "phi3": Model("Phi-3", "<|endoftext|>"),
    "phi3_5": Model("Phi-3.5", "<|endoftext|>"),
    "qwen2_5": Model("Qwen 2.5", "<|im_end|>"),
    "qwen2_5_vl": Model("Qwen 2 VL, Qwen 2.5 VL", "<|im_end|>"),
    "qwen3": Model("Qwen 3", "<|im_end|>"),
    "qwen3_5_think": Model("Qwen 3.5", "<|im_end|>"),
    "qwen3_6": Model("Qwen 3.6", "<|im_end|>"),
    "qwen3_8": Model("Qwen 3.8", "<|im_end|>"),
    "qwen3_instruct_2507": Model("Qwen 3 Instruct 2507", "<|im_end|>"),
    "qwen3_vl": Model("Qwen 3 VL", "<|im_end|>"),
    "smolvlm": Model("SmolVLM", "<end_of_utterance>"),
}


def trl_templates() -> Path | None:
    """The folder of templates that comes with TRL, where it is found."""
    if folder := os.environ.get("TRL_TEMPLATES"):
        return Path(folder)
    found = importlib.util.find_spec("trl")
    return Path(found.origin).parent / "chat_templates" if found and found.origin else None


def source(name: str) -> str:
    """The text of a template; skips the test if it is not here."""
    for folder in (HERE, trl_templates()):
        if folder is not None and (folder / f"{name}.jinja").exists():
            return (folder / f"{name}.jinja").read_text()
    pytest.skip(MISSING)


@cache
def tokenizer(name: str) -> Any:
    """A tokenizer with a template, and with the added tokens that the template names."""
    text = source(name)
    model = MODELS[name.removesuffix("_training")]
    made = byte_level(chat_template=text, eos_token=model.eos, bos_token=model.bos, pad_token="<pad>")
    made.add_tokens(sorted(set(_ADDED.findall(text)) - set(made.get_vocab())), special_tokens=True)
    return made
