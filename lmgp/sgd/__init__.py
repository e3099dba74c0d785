"""Stochastic gradient descent in the space of a kernel."""
