"""Item -> record: how the bytes of an item are found and read. The only room that knows file layouts."""
