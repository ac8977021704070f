"""Durable records beside a table: notes on runs and scripts, cursors, and positions of streams."""
