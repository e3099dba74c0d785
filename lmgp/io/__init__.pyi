from .arrow import open_dataset

__all__ = [
    "open_dataset",
]
