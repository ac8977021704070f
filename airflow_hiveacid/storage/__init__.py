"""Access to the files of tables on the file system of their location."""
