"""Transactions, locks and snapshots of a metastore."""
