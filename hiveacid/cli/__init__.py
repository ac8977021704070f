"""The console command `hiveacid`, one module for each of its commands."""
