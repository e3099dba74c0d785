"""Posteriors of Gaussian processes: one contract, and one file for each way to get one."""
