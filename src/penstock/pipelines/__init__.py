"""Config -> parts and recipes: one file per pipeline, the only place where a reader meets a recipe."""

from penstock.pipelines.chat import ChatPipeline
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.raw import RawPipeline
from penstock.pipelines.robot import RobotPipeline
from penstock.pipelines.speech import SpeechPipeline

PIPELINES: dict[str, Pipeline] = {
    "chat": ChatPipeline(),
    "raw": RawPipeline(),
    "robot": RobotPipeline(),
    "speech": SpeechPipeline(),
}
"""The built-in pipelines, by the name that a config uses; ``penstock.open(…, pipelines=…)`` adds to them."""
