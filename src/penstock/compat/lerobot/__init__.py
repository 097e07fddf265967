"""LeRobot's streaming dataset, over a feed: change the import, keep the training script."""

from penstock.compat.lerobot.streaming import StreamingLeRobotDataset
from penstock.media.video.decoders import Decoders as VideoDecoderCache

__all__ = ["StreamingLeRobotDataset", "VideoDecoderCache"]
