"""What templates and labels cost beside the tokenizer: conversations per second, and the share of the tokenizer alone.

python benchmarks/labels.py [--conversations 4_000] [--rounds 5]

Time is CPU time of all threads, so that a busy machine changes little. A share of 80% means that a fifth of the time is
spent on everything but the tokenizer.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from penstock.text.chattemplate import ChatTemplate
from penstock.text.labels import Encoder
from penstock.text.templates import Template, TokensTemplate

ROLES = ("system", "user", "assistant")
TOKENS = {f"{role}_{end}": f"<|{role}_{end}|>" for role in ROLES for end in ("start", "end")}
SPECIAL = [*TOKENS.values(), "<|im_start|>", "<|im_end|>"]
HEADER = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
PROMPT = "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
CHATML = HEADER + "{{ message['content'] + '<|im_end|>\n' }}" + PROMPT
BLOCKS = (
    HEADER + "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}" + PROMPT
)
BATCH = 256  # texts per call


def made_words(count: int) -> list[str]:
    """Words of two to five syllables; the first of them are the most frequent."""
    syllables = [first + vowel + last for first in "bdfgklmnprstvz" for vowel in "aeiou" for last in ("", "n", "s")]
    return ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(count)]


def made_samples(count: int) -> list[dict[str, Any]]:
    """Conversations of one or two questions, about 850 characters on average."""
    words = made_words(20_000)
    weights = [1 / (rank + 10) for rank in range(len(words))]

    def text(mean: int) -> str:
        return " ".join(random.choices(words, weights, k=max(1, round(random.lognormvariate(0, 0.8) * mean)))) + "."

    turns = [random.choice((1, 1, 2)) for _ in range(count)]
    said = [[("user", text(20)), ("assistant", text(60))] * number for number in turns]
    return [{"messages": [{"role": role, "content": content} for role, content in each]} for each in said]


def made_tokenizer(samples: list[dict[str, Any]]) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=16_000, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator((message["content"] for each in samples for message in each["messages"]), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<|im_end|>")


def seconds(make: Callable[[list[Any]], object], items: list[Any]) -> float:
    start = time.process_time()
    for at in range(0, len(items), BATCH):
        make(items[at : at + BATCH])
    return time.process_time() - start


def measure(template: Template, encoder: Encoder, tokenizer: Any, samples: list[Any], rounds: int) -> list[float]:
    """Return µs per conversation for the template, for tokens and labels, and for the tokenizer alone."""
    rendered = [template.render(sample) for sample in samples]
    texts = [each.text for each in rendered]
    taken = []
    for _ in range(rounds):
        drawn = seconds(lambda some: [template.render(each) for each in some], samples)
        encoded = seconds(encoder.encode, rendered)
        alone = seconds(lambda some: tokenizer(some, add_special_tokens=False)["input_ids"], texts)
        taken.append((drawn, encoded, alone))
    return [statistics.median(column) / len(samples) * 1e6 for column in zip(*taken, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    random.seed(7)
    samples = made_samples(arguments.conversations)
    tokenizer = made_tokenizer(samples)
    templates: dict[str, Template] = {"dict of tokens": TokensTemplate(TOKENS)}
    for name, source in (("chat template", CHATML), ("chat template with generation blocks", BLOCKS)):
        tokenizer.chat_template = source
        templates[name] = ChatTemplate(tokenizer)
    encoder = Encoder(tokenizer, max_length=1024)
    print("| template | µs per conversation: template | tokens and labels | tokenizer alone | share |")
    print("|---|---|---|---|---|")
    for name, template in templates.items():
        drawn, encoded, alone = measure(template, encoder, tokenizer, samples, arguments.rounds)
        print(f"| {name} | {drawn:.0f} | {encoded:.0f} | {alone:.0f} | {alone / (drawn + encoded):.0%} |")


if __name__ == "__main__":
    main()
