"""Statements that the metastore alone carries out: databases, and the definitions of tables."""
