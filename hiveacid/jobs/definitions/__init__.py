"""Jobs that change definitions of databases, tables, partitions, and views."""
