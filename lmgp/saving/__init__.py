"""Model files: fitted models and maps as arrays and JSON, without pickle.

A file is a zip archive, as numpy's npz. ``model.json`` has the tree of objects (`lmgp.saving.encode`), and each array
is a member of its own, ``a0.npy``, ``a1.npy`` and so on (`lmgp.saving.container`). Only the classes of
`lmgp.saving.names` are written, and only they are made of what is read: nothing that a file names is imported or
called.

What of an object is in a file:

- of a dataclass or a named tuple, its fields;
- of all others, what `__getstate__` returns, a dictionary, from which `__setstate__` makes the object again. Objects
  without these methods have their attributes. What follows from the rest (a factor, a cache, a lock) is left out there,
  for pickle and for files alike.

An object that holds training rows says how many by an attribute `rows_kept`; the largest stands in the file.
"""
