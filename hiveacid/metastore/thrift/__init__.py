"""Transport of calls and answers between client and metastore."""
