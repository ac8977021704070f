"""The history of a table: its versions, as directories, notes, and the metastore tell them."""
