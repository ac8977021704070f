{% macro hiveacid__snapshot_merge_sql(target, source, insert_cols) -%}
  {{ return(default__snapshot_merge_sql(target, source, insert_cols)) }}
{%- endmacro %}

{% materialization snapshot, adapter='hiveacid' %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {% if existing is not none and not existing.is_table %}
    {% do exceptions.relation_wrong_type(existing, 'table') %}
  {% endif %}
  {{ run_hooks(pre_hooks) }}
  {% set make_strategy = strategy_dispatch(config.get('strategy')) %}
  {% set strategy = make_strategy(model, "snapshotted_data", "source_data", model['config'], existing is not none) %}
  {# Also if it is a date: the end of a deleted row is a time. #}
  {% do strategy.update({'updated_at': 'cast(' ~ strategy.updated_at ~ ' as timestamp)'}) %}
  {% if existing is none %}
    {% set rows = build_snapshot_table(strategy, model['compiled_code']) %}
    {% do check_time_data_types(rows) %}
    {% do hiveacid_write_table(target_relation, none, rows, get_column_schema_from_query(rows)) %}
  {% elif adapter.was_created_by_run(target_relation, model) %}
    {% call noop_statement('main', 'ALREADY APPLIED', 'ALREADY APPLIED', 0) %}{{ compiled_code }}{% endcall %}
  {% else %}
    {% set names = config.get("snapshot_table_column_names") or get_snapshot_table_column_names() %}
    {{ adapter.assert_valid_snapshot_target_given_strategy(target_relation, names, strategy) }}
    {% set changes = snapshot_staging_table(strategy, sql, target_relation) %}
    {% do check_time_data_types(changes) %}
    {% set columns_relation = hiveacid_columns_relation(changes) %}
    {% set own = ['dbt_change_type', 'dbt_unique_key'] %}
    {% if strategy.unique_key | is_list %}
      {% for key in strategy.unique_key %}{% do own.append('dbt_unique_key_' ~ loop.index) %}{% endfor %}
    {% endif %}
    {% set missing = adapter.get_missing_columns(columns_relation, target_relation) | rejectattr('name', 'in', own) | list %}
    {% do create_columns(target_relation, missing) %}
    {% set columns = adapter.get_columns_in_relation(columns_relation) | rejectattr('name', 'in', own) | list %}
    {% do adapter.drop_relation(columns_relation) %}
    {% set merge = snapshot_merge_sql(
      target=target_relation, source='(' ~ changes ~ '\n)', insert_cols=columns | map(attribute='quoted') | list) %}
    {% do adapter.name_next_statement(model) %}
    {% call statement('main') %}{{ merge }}{% endcall %}
  {% endif %}
  {% do apply_grants(target_relation, config.get('grants'), should_revoke=False) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
