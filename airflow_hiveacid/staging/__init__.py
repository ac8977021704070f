"""Files of a transaction that are written under hidden names, then published."""
