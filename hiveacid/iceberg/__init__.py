"""Export of transactional tables to Iceberg at the speed of a copy, without Spark and Java."""
