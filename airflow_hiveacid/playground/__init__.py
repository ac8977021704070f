"""An Airflow with tables that are at work, on one machine, to look at and to try things with."""
