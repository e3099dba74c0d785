"""Choosing a model by measurement: candidates, what they cost, held-out rows to try them on, and the search."""
