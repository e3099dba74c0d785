"""Fast prediction with fitted models that are sums of Gaussian kernels at support vectors."""
