"""Choosing a model by measurement."""
