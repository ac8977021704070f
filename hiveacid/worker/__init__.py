"""The engine of small changes: rows are evaluated by Arrow in this process, without Spark and Java."""
