"""The interface for programs in Python: tables, transactions, and statements, above both engines."""
