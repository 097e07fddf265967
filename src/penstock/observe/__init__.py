"""What was used: a ledger that training writes, and what can be read from it."""

from typing import TYPE_CHECKING

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from penstock.observe.ledger import Ledger

__all__ = ["Ledger"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.observe.ledger": ["Ledger"],
        },
    )
