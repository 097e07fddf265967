"""Chat templates of a line, for tests of single modules. No tokenizer is needed."""

TAGS = (  # <user>Hi</s><bot>Hello</s>
    "{% for m in messages %}{{ ('<bot>' if m.role == 'assistant' else '<' + m.role + '>') + m.content + '</s>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}"
)
BLOCKS = (  # the same; what the assistant says stands in a block
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<bot>' }}{% generation %}{{ m.content + '</s>' }}"
    "{% endgeneration %}{% else %}{{ '<' + m.role + '>' + m.content + '</s>' }}{% endif %}{% endfor %}"
)
ENDLESS = TAGS.replace(" + '</s>'", "")  # a turn ends where the next one begins
SPECIAL_TOKENS = ["<user>", "<bot>", "</s>"]
