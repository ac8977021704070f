"""Row ids in ORC files: reading, comparing, counting, and writing them."""
