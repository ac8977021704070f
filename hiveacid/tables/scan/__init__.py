"""Reading tables without Spark and without Java, as batches of Arrow."""
