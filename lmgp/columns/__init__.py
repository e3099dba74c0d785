"""Columns of tables as people have them, and the coordinates that a kernel sees of them."""
