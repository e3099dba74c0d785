"""Where rows come from that do not fit into memory: chunks, one after the other."""

from lmgp.io.arrow import open_dataset

__all__ = ["open_dataset"]
