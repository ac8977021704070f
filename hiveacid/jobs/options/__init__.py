"""Options of a run: its metastore, its token, and its limits."""
