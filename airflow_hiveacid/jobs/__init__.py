"""Data that is passed between Airflow and Spark as JSON: jobs, needs, reports and notes."""
