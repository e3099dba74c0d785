"""Sums over rows: what streams, machines and later rows add up to, and the posteriors that they make."""
