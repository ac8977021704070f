"""Looking after tables without Spark: surveys, health, history and cleaning."""
