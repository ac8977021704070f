"""The PySpark side: reading and writing tables. Knows nothing of Airflow."""
