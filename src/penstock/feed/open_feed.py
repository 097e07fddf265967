"""From a YAML file, a mapping or options to a feed. Knows no single pipeline."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config import Config, load_config, make_config
from penstock.config.reading import read_yaml
from penstock.feed.feed import Feed
from penstock.feed.opening import open_run
from penstock.pipelines import PIPELINES
from penstock.pipelines.pipeline import AnyPipeline
from penstock.runtime.ranks import of_mesh

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

GivenConfig = str | PathLike[str] | Mapping[str, Any] | None
"""The path of a YAML file, a mapping with the same keys, or nothing."""


def open_feed(
    config: GivenConfig = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    mesh: "DeviceMesh | None" = None,
    pipelines: Mapping[str, AnyPipeline] | None = None,
    **options: Any,
) -> Feed:
    """Open a run; see ``penstock.open``."""
    if mesh is not None and (rank, world) != (None, None):
        raise ValueError("give mesh, or rank and world, not both")
    checked = checked_config(config, pipelines, **options)
    if mesh is None:
        return Feed(checked, open_run(checked), rank=rank, world=world)
    place = of_mesh(mesh)
    return Feed(checked, open_run(checked), rank=place.rank, world=place.world, recording=place.first)


def checked_config(config: GivenConfig, pipelines: Mapping[str, AnyPipeline] | None = None, **options: Any) -> Config:
    """Return the checked configuration of a run; see ``penstock.open``."""
    known = {**PIPELINES, **(pipelines or {})}
    if config is None or isinstance(config, Mapping):
        return make_config({**(config or {}), **options}, known, folder=Path())
    return load_config(config, known, **options)


def open_recipe(
    recipe: str,
    config: GivenConfig,
    options: Mapping[str, Any],
    *,
    rank: int | None,
    world: int | None,
    mesh: "DeviceMesh | None",
) -> Feed:
    """Open a run of one recipe. Options of the recipe's section may be given directly."""
    own = PIPELINES[recipe].options.model_fields
    single = {key: value for key, value in options.items() if key in own}
    others = {key: value for key, value in options.items() if key not in own}
    if single:
        section = others[recipe] if recipe in others else _section(config, recipe)
        others[recipe] = {**section, **single} if isinstance(section, Mapping) else section or single
    return open_feed(config, rank=rank, world=world, mesh=mesh, recipe=recipe, **others)


def _section(config: GivenConfig, recipe: str) -> Any:
    """Return the section of a recipe as the config has it, or None."""
    if config is None or isinstance(config, Mapping):
        return (config or {}).get(recipe)
    return read_yaml(Path(config)).get(recipe)
