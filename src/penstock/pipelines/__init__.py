"""Config -> parts and recipes: one file per pipeline, the only place where a reader meets a recipe."""

from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.raw import RawPipeline
from penstock.pipelines.speech import SpeechPipeline

PIPELINES: dict[str, Pipeline] = {"raw": RawPipeline(), "speech": SpeechPipeline()}
"""The built-in pipelines, by the name that a config uses; ``penstock.open(…, pipelines=…)`` adds to them."""
