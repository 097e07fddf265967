"""Groups -> records: how the bytes of an item are found and read."""
