"""Choosing a model by measurement: candidates, their expected seconds, held-out rows to try them on, and the search."""
