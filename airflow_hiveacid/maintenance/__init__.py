"""Looking after tables: what they need, who is in the way, what may go."""
