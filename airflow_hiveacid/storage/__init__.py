"""The files of tables, on whatever file system their locations name."""
