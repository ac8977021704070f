"""A real metastore on this machine, for trying and testing."""
