"""Records -> fields of a batch: one file per recipe. Sees records, never a reader."""

from typing import TYPE_CHECKING

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from penstock.recipes.collate import collate_fn
    from penstock.recipes.recipe import Bad, Item, Recipe, each
    from penstock.recipes.robot import Robot
    from penstock.recipes.sample_losses import per_sample_loss

__all__ = ["Bad", "Item", "Recipe", "Robot", "collate_fn", "each", "per_sample_loss"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.recipes.collate": ["collate_fn"],
            "penstock.recipes.recipe": ["Bad", "Item", "Recipe", "each"],
            "penstock.recipes.robot": ["Robot"],
            "penstock.recipes.sample_losses": ["per_sample_loss"],
        },
    )
