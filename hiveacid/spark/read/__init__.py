"""Reading: the files and rows of a table that are visible to a transaction."""
