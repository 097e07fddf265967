"""Trainers that people have: one module per framework. Each is imported only when asked for; none is a dependency."""
