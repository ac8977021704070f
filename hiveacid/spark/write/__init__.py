"""Writing: one transaction, and the files that it stages and publishes."""
