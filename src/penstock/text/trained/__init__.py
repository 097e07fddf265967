"""Finds what is trained in the text that a chat template writes. Knows no tokenizer, no format and no batch.

``docs/trained-text.md`` explains how, with a picture. From the entry down:

    writer    messages and weights -> text with trained spans
    blocks    which message a {% generation %} block belongs to
    turns     where a turn begins and ends, in a text without blocks
    layouts   turns of conversations of a known shape, without a second rendering
    spots     where messages stand in a text, by marks
    marks     words around what messages say
    borders   how a template begins and ends turns
    jinja     one template, rendered by transformers
    weights   which messages are trained, and their loss weights
"""

from penstock.text.trained.spots import SpansNotFound
from penstock.text.trained.weights import Message, TrainOn, message_weights
from penstock.text.trained.writer import TemplateWriter

__all__ = ["Message", "SpansNotFound", "TemplateWriter", "TrainOn", "message_weights"]
