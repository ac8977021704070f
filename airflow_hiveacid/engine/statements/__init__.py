"""The changes of a table: each a statement with its locks, its checks and its rows."""
