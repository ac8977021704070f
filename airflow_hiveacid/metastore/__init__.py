"""The client of the Hive Metastore, the transaction, and a metastore of our own to try them."""
