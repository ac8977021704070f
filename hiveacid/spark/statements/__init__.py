"""Changes of a table: statements with locks, checks, and rows."""
