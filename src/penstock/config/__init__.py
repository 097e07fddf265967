"""The configuration of a run, checked once when it is loaded. Knows the keys and their meaning; opens no data."""

from penstock.config.checking import load_config, make_config
from penstock.config.errors import ConfigError, nearest
from penstock.config.keys import (
    BatchConfig,
    CacheConfig,
    Config,
    ExcludeConfig,
    MixtureConfig,
    PipelineKeys,
    PrefetchConfig,
    RemoteConfig,
    RoundsConfig,
    SourceEntry,
    StoreKeys,
    Strict,
    UsageConfig,
)
from penstock.config.values import AnchoredPath, Size, StoreUrl, duration

__all__ = [
    "AnchoredPath",
    "BatchConfig",
    "CacheConfig",
    "Config",
    "ConfigError",
    "ExcludeConfig",
    "MixtureConfig",
    "PipelineKeys",
    "PrefetchConfig",
    "RemoteConfig",
    "RoundsConfig",
    "Size",
    "SourceEntry",
    "StoreKeys",
    "StoreUrl",
    "Strict",
    "UsageConfig",
    "duration",
    "load_config",
    "make_config",
    "nearest",
]
