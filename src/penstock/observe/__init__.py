"""What was used: a ledger that training writes, and what can be read from it."""
