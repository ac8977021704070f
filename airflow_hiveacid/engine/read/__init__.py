"""Reading: which files and rows of a table a transaction sees."""
