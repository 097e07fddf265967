"""Config -> parts and recipes: one file per pipeline, the only place where a reader meets a recipe."""

from penstock.pipelines.chat import ChatPipeline
from penstock.pipelines.chat_options import ChatOptions, ChatSource
from penstock.pipelines.pipeline import AnyPipeline, BasePipeline, Context, Pipeline
from penstock.pipelines.raw import RawPipeline
from penstock.pipelines.robot import RobotOptions, RobotPipeline, RobotSource
from penstock.pipelines.speech import SpeechOptions, SpeechPipeline
from penstock.pipelines.tar import TarSource

__all__ = [
    "PIPELINES",
    "BasePipeline",
    "ChatOptions",
    "ChatSource",
    "Context",
    "Pipeline",
    "RobotOptions",
    "RobotSource",
    "SpeechOptions",
    "TarSource",
]

PIPELINES: dict[str, AnyPipeline] = {
    "chat": ChatPipeline(),
    "raw": RawPipeline(),
    "robot": RobotPipeline(),
    "speech": SpeechPipeline(),
}
"""Built-in pipelines by name; ``penstock.open(…, pipelines=…)`` adds to them."""
