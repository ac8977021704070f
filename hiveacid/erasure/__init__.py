"""Erasure of keys: the search for them in all files of tables, what delays it, and its certificate."""
