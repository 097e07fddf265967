"""The report of a run: ledgers, binned and drawn on one page."""
