"""The bytes of an ORC file: its messages, streams, and statistics."""
