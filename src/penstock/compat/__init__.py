"""Stand-ins for classes of other projects: the same arguments and items, over a feed."""
