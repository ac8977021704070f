"""Authentication of metastore connections: Kerberos, and delegation tokens for drivers."""
