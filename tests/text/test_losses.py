"""The loss does not depend on how samples are put into rows: real models, each sample alone against all together."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from penstock.plan.draws import key
from penstock.text.chattemplate import ChatTemplate
from penstock.text.labels import Encoded, Encoder
from penstock.text.packs import deal
from penstock.text.rows import packed, padded, padding_free
from tests.text.chat_templates import QWEN_3
from tests.text.conversations import assistant, user
from tests.text.made_tokenizers import byte_level

LENGTH = 96
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
MODELS: dict[str, Any] = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen-2": (Qwen2Config, Qwen2ForCausalLM)}


@pytest.fixture(scope="module")
def samples() -> list[Encoded]:
    tokenizer = byte_level(chat_template=QWEN_3)
    template = ChatTemplate(tokenizer)
    several = [
        [user("Is it sunny? " * n), assistant("Yes. " * (n % 3 + 1)), user("Why?"), assistant("Words. " * n)]
        for n in range(1, 8)
    ]
    encoder = Encoder(tokenizer, max_length=LENGTH)
    made = encoder.encode([template.render({"messages": messages}) for messages in several])
    return [each for each in made if isinstance(each, Encoded)]


@pytest.fixture(scope="module", params=[(name, how) for name in MODELS for how in ("eager", "sdpa")], ids="-".join)
def model(request: pytest.FixtureRequest) -> Iterator[Any]:
    name, how = request.param
    config, kind = MODELS[name]
    torch.manual_seed(3)
    yield kind(config(vocab_size=1_000, max_position_embeddings=2_048, attn_implementation=how, **SIZES)).eval()


def loss(model: Any, fields: dict[str, Any]) -> float:
    """The loss of a batch by the model's own loss function, which divides by ``label_tokens``.

    Without ``use_cache=False`` a model of transformers does not look at where ``position_ids`` start again.
    """
    names = ("input_ids", "labels", "attention_mask", "position_ids")
    tensors = {name: torch.from_numpy(fields[name]) for name in names if name in fields}
    with torch.no_grad():
        return float(model(**tensors, use_cache=False, num_items_in_batch=fields["label_tokens"]).loss)


@pytest.fixture(scope="module")
def alone(model: Any, samples: list[Encoded]) -> float:
    """The loss of all samples, each by itself, in no row at all."""
    total = 0.0
    for sample in samples:
        ids, labels = (torch.from_numpy(each)[None] for each in (sample.input_ids, sample.labels))
        with torch.no_grad():
            total += float(model(input_ids=ids, labels=labels, num_items_in_batch=1).loss)
    return total / sum(int(np.count_nonzero(sample.labels != -100)) for sample in samples)


def in_packs(samples: list[Encoded]) -> list[list[Encoded]]:
    packs = deal(np.array([len(sample) for sample in samples]), 2 * LENGTH, key(1))
    return [[samples[member] for member in packs[number]] for number in range(len(packs))]


ROWS: dict[str, Any] = {
    "padded": lambda samples: padded(samples, 1),
    "padded to a multiple": lambda samples: padded(samples, 1, length=LENGTH, pad_to_multiple_of=64),
    "padding-free": padding_free,
    "padding-free to a multiple": lambda samples: padding_free(samples, 1, pad_to_multiple_of=128),
    "packed": lambda samples: packed(in_packs(samples), 1, length=2 * LENGTH),
    "packed and flat": lambda samples: packed(in_packs(samples), 1, length=2 * LENGTH, flat=True),
}


@pytest.mark.parametrize("kind", ROWS)
def test_the_loss_is_that_of_samples_alone(model: Any, samples: list[Encoded], alone: float, kind: str) -> None:
    assert len(samples) == 7 and max(map(len, samples)) == LENGTH  # one was cut
    # Sums of float32 in another order differ by about 1e-6.
    assert loss(model, ROWS[kind](samples)) == pytest.approx(alone, abs=1e-5)


def test_the_comparison_would_see_samples_that_attend_to_each_other(
    model: Any, samples: list[Encoded], alone: float
) -> None:
    fields = padding_free(samples)
    fields["position_ids"] = np.arange(fields["input_ids"].size)[None]
    assert abs(loss(model, fields) - alone) > 1e-4
    labelled = padding_free(samples)
    labelled["labels"][labelled["position_ids"] == 0] = 7  # a sample's first token, predicted from the sample before
    assert abs(loss(model, labelled) - alone) > 1e-4
