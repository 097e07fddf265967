"""Records -> fields of a batch: one file per recipe. Sees records, never a reader."""

from typing import TYPE_CHECKING

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from penstock.recipes.augmenting import Augmentation, SpecAugment, Speed
    from penstock.recipes.collate import collate_fn
    from penstock.recipes.recipe import Bad, Item, Recipe, each
    from penstock.recipes.robot import Robot
    from penstock.recipes.sample_losses import per_sample_loss

__all__ = [
    "Augmentation",
    "Bad",
    "Item",
    "Recipe",
    "Robot",
    "SpecAugment",
    "Speed",
    "collate_fn",
    "each",
    "per_sample_loss",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.recipes.augmenting": ["Augmentation", "SpecAugment", "Speed"],
            "penstock.recipes.collate": ["collate_fn"],
            "penstock.recipes.recipe": ["Bad", "Item", "Recipe", "each"],
            "penstock.recipes.robot": ["Robot"],
            "penstock.recipes.sample_losses": ["per_sample_loss"],
        },
    )
