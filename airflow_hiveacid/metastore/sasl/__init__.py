"""Who is who on a connection to a metastore: Kerberos, and delegation tokens for drivers."""
