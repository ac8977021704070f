"""Values in ORC files that need care: times, decimals, and changed types."""
