"""History of a table: its versions, derived from directories, notes and the metastore."""
