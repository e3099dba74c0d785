"""Comparisons of approximate Gaussian processes against the exact one, as the command ``lmgp compare`` runs them."""
