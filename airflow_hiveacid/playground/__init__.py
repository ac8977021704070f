"""An Airflow with active tables on one machine, for exploration and experiments."""
