"""How rows or statistics become a posterior."""
