{# Write the rows of a query to a table.

   A table with the definition of the model is overwritten in one transaction. Otherwise, a new
   table is made beside the old one and then takes its name: readers see the old rows, for a moment
   no table, and then the new rows. #}
{% macro hiveacid_write_table(target, existing, sql, columns, replace=False) %}
  {% if adapter.was_created_by_run(target, model) %}
    {% call noop_statement('main', 'ALREADY APPLIED', 'ALREADY APPLIED', 0) %}{{ sql }}{% endcall %}
  {% elif existing is not none and not replace and adapter.has_definition(existing, model, columns) %}
    {% do adapter.name_next_statement(model) %}
    {% call statement('main') %}{{ hiveacid_insert(target, columns, sql, replace=True) }}{% endcall %}
  {% else %}
    {% do hiveacid_swap(target, existing, sql, columns) %}
  {% endif %}
{% endmacro %}

{% macro hiveacid_swap(target, existing, sql, columns) %}
  {% set new = adapter.new_relation(target) %}
  {% set existing = existing or adapter.give_back(target) %}
  {% for each in adapter.leftovers(target, 'new') %}{% do adapter.drop_relation(each) %}{% endfor %}
  {% set leftovers = adapter.leftovers(target, 'old') %}
  {% set seen = adapter.state_of(existing) if existing is not none and existing.is_table else '' %}
  {% call statement('create_table') %}{{ adapter.create_table_sql(new, model, columns) }}{% endcall %}
  {% call statement('main') %}{{ hiveacid_insert(new, columns, sql) }}{% endcall %}
  {% if existing is not none and existing.is_table %}
    {% do adapter.put_aside(existing, seen) %}
  {% elif existing is not none %}
    {% do adapter.drop_relation(existing) %}
  {% endif %}
  {% do adapter.rename_relation(new, target.incorporate(type='table')) %}
  {# Only now: until it is replaced, another run may have given the table one of these names. #}
  {% for each in [adapter.old_relation(target)] + leftovers %}{% do adapter.drop_relation(each) %}{% endfor %}
{% endmacro %}

{% macro hiveacid_run_header() %}
  {% if config.get('sql_header') %}
    {% call statement('sql_header') %}{{ config.get('sql_header') }}{% endcall %}
  {% endif %}
{% endmacro %}

{# The query for the rows of a model; one in Python runs first. #}
{% macro hiveacid_query(compiled_code) %}
  {% if model['language'] == 'python' %}
    {{ return('select * from ' ~ adapter.create_python_view(compiled_code)) }}
  {% endif %}
  {{ return(compiled_code) }}
{% endmacro %}

{% materialization table, adapter='hiveacid', supported_languages=['sql', 'python'] %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {{ run_hooks(pre_hooks) }}
  {% do hiveacid_run_header() %}
  {% set query = hiveacid_query(compiled_code) %}
  {% do hiveacid_write_table(target_relation, existing, query, hiveacid_columns(query), should_full_refresh()) %}
  {% do apply_grants(target_relation, config.get('grants'), should_revoke=False) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
