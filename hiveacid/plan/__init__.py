"""The meaning of a change, stated once for all engines, which only read, match, evaluate, and sum."""
