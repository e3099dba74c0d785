"""Model files: fitted models and maps as arrays and JSON, without pickle.

`files` writes and reads them, and `tree` turns objects into JSON and arrays, and back. `tags` lists the classes that
files may hold, and `upgrades` has what turns objects of version 0.3 into those of today. Every file of the package
appears whole or not at all, by `output`.
"""
