"""The storage layout of a partition: listings, and the files that a snapshot reads."""
