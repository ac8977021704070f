"""Requests to compact, and the transactions that answer them."""
