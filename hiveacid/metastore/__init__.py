"""A client of the Hive Metastore: catalog, transactions, compaction queue; and a metastore to try."""
