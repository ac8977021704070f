"""What crosses from Airflow to Spark and back as JSON: jobs, needs, reports and notes."""
