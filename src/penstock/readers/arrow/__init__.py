"""Tables as pieces of the node cache, in Arrow's format: one row costs microseconds."""
