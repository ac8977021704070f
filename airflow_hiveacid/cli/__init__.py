"""The console command `hiveacid`: look at ACID tables without a JVM."""
