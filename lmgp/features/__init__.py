"""Feature maps: φ(x)ᵀφ(z) ≈ k(x, z)."""
