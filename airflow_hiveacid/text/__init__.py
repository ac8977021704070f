"""Plain text: SQL tokens, tables, spelling, quantities, and printable output."""
