"""The Python API: tables, transactions over several tables, and reads by Spark."""
