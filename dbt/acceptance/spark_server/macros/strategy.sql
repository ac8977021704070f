{# dbt-spark knows merges of Delta, Iceberg, and Hudi only. #}
{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) %}
  {% do return(raw_strategy) %}
{% endmacro %}
