"""How calls get to a metastore, and answers back."""
