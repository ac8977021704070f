{# Relations and columns #}

{% macro hiveacid__get_columns_in_relation(relation) -%}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{%- endmacro %}

{% macro hiveacid__drop_relation(relation) -%}
  {% call statement('drop_relation', auto_begin=False) -%}
    {% if not relation.include_policy.schema %}
      drop view if exists {{ relation }}
    {% else %}
      drop {{ relation.type }} if exists {{ relation }}
    {% endif %}
  {%- endcall %}
{% endmacro %}

{# Definitions #}

{% macro hiveacid__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if temporary -%}
    create or replace temporary view {{ relation }} as
    {{ compiled_code }}
  {%- else -%}
    {%- set columns = hiveacid_columns(compiled_code) -%}
    {# An execution runs one statement. #}
    {%- call statement('create_table') -%}{{ adapter.create_table_sql(relation, model, columns) }}{%- endcall -%}
    {{ hiveacid_insert(relation, columns, compiled_code) }}
  {%- endif -%}
{%- endmacro %}

{# The columns of a query, which must be those of the contract if there is one. #}
{% macro hiveacid_columns(sql) %}
  {% if config.get('contract').enforced %}
    {% do get_assert_columns_equivalent(sql) %}
  {% endif %}
  {{ return(get_column_schema_from_query(sql)) }}
{% endmacro %}

{# `REPLACE WHERE TRUE` also empties the partitions for which the query has no rows. #}
{% macro hiveacid_insert(relation, columns, sql, replace=False) -%}
  {%- set names = columns | map(attribute='quoted') | join(', ') -%}
  insert into {{ relation }} ({{ names }}){{ ' replace where true' if replace }}
  select {{ names }} from (
    {{ sql }}
  ) as __dbt_sbq
{%- endmacro %}

{% macro hiveacid__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if remove_columns %}
    {% do exceptions.raise_compiler_error(
      "Columns of " ~ relation ~ " cannot be dropped (" ~ remove_columns | map(attribute='name') | join(', ')
      ~ "): files keep their values. Build the table again by --full-refresh.") %}
  {% endif %}
  {% if add_columns %}
    {% call statement('add_columns') %}
      alter table {{ relation.render() }} add columns ({{ adapter.added_columns(add_columns) }})
    {% endcall %}
  {% endif %}
{% endmacro %}

{# That of Spark puts names between quotes as they are. #}
{% macro hiveacid__create_columns(relation, columns) %}
  {% do hiveacid__alter_relation_add_remove_columns(relation, columns, none) %}
{% endmacro %}

{# Of a relation without rows, only its name (--empty). #}
{% macro hiveacid__alter_column_type(relation, column_name, new_column_type) -%}
  {% call statement('alter_column_type') %}
    alter table {{ relation.render() }} alter column {{ adapter.quote(column_name) }} type {{ new_column_type }}
  {% endcall %}
{% endmacro %}

{% macro hiveacid__persist_docs(relation, model, for_relation, for_columns) -%}
  {% if for_columns and config.persist_column_docs() and model.columns %}
    {% do validate_doc_columns(
      relation, model.columns, adapter.get_columns_in_relation(relation) | map(attribute='name') | list) %}
  {% endif %}
  {% if relation.is_table %}
    {% for statement_of_comment in adapter.comment_statements(relation, model) %}
      {% call statement('comment') %}{{ statement_of_comment }}{% endcall %}
    {% endfor %}
  {% endif %}
{% endmacro %}

{% macro hiveacid__apply_grants(relation, grant_config, should_revoke=True) %}
  {% if grant_config %}
    {% do exceptions.raise_compiler_error(
      "grants of " ~ relation ~ " cannot be set: a bare metastore has no rights of its own."
      ~ " Remove the setting, and grant rights where they are enforced (storage, Ranger).") %}
  {% endif %}
{% endmacro %}

{# The cast of the default does not parse on Spark 3.5. #}
{% macro hiveacid__current_timestamp_backcompat() -%}
    cast(current_timestamp() as timestamp)
{%- endmacro %}

{% macro hiveacid__validate_sql(sql) -%}
  {% call statement('validate_sql') -%}
    {{ get_empty_subquery_sql(sql) }}
  {% endcall %}
  {{ return(load_result('validate_sql')) }}
{% endmacro %}

{# Functions #}

{# With ANSI, an invalid date is an error by itself; `assert_true` is not allowed in views. #}
{% macro hiveacid__assert_not_null(function, arg) %}
  {{ function }}({{ arg }})
{% endmacro %}
