"""Compaction of partitions, with proof, by pure task functions; independent of Spark."""
