"""Gaussian processes on equispaced Fourier modes: a global solve for the mean in up to three columns."""
