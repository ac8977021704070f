"""The PySpark side: reading and writing tables, independent of Airflow."""
