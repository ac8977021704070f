"""EXPLAIN: the partitions, files, and locks of a statement."""
