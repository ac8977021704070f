"""The course of a write, from its locks to its commit; an engine evaluates its rows."""
