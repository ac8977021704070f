{# The query is a part of each statement, and no temporary table: the statement reads all of its
   tables in one snapshot, and begins again if others commit first. #}

{% macro hiveacid__get_incremental_append_sql(arg_dict) %}
  {{ return(hiveacid_insert_rows('into', arg_dict)) }}
{% endmacro %}

{% macro hiveacid__get_incremental_insert_overwrite_sql(arg_dict) %}
  {{ return(hiveacid_insert_rows('overwrite table', arg_dict)) }}
{% endmacro %}

{% macro hiveacid_insert_rows(how, arg_dict) %}
  {%- set names = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
  insert {{ how }} {{ arg_dict['target_relation'] }} ({{ names }})
  select {{ names }} from {{ arg_dict['temp_relation'] }} as DBT_INTERNAL_SOURCE
{% endmacro %}

{% macro hiveacid__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
  {{ return(default__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates)) }}
{% endmacro %}

{% macro hiveacid__get_merge_update_columns(merge_update_columns, merge_exclude_columns, dest_columns) %}
  {{ return(default__get_merge_update_columns(merge_update_columns, merge_exclude_columns, dest_columns)) }}
{% endmacro %}

{# One merge deletes and inserts: the first row of a key is there twice. Its columns have other
   names, so that the names in predicates belong to the table. #}
{% macro hiveacid__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
  {%- set names = dest_columns | map(attribute='name') | list -%}
  {%- if not unique_key -%}
    insert into {{ target }} ({{ dest_columns | map(attribute='quoted') | join(', ') }})
    select {{ dest_columns | map(attribute='quoted') | join(', ') }} from {{ source }} as DBT_INTERNAL_SOURCE
  {%- else -%}
    {%- set keys = [unique_key] if unique_key is string else unique_key -%}
    merge into {{ target }} as DBT_INTERNAL_DEST
    using (
      select *, explode(if(dbt_row = 1, array('delete', 'insert'), array('insert'))) as dbt_act
      from (
        select
          {% for name in names %}{{ adapter.quote(name) }} as {{ adapter.quote('dbt_new_' ~ name) }}, {% endfor %}
          {% for key in keys %}{{ key }} as dbt_key_{{ loop.index }}, {% endfor %}
          row_number() over (partition by {{ keys | join(', ') }} order by {{ keys | join(', ') }}) as dbt_row
        from {{ source }} as DBT_INTERNAL_SOURCE
      ) as dbt_numbered
    ) as dbt_changes
    on dbt_changes.dbt_act = 'delete'
    {% for key in keys %} and DBT_INTERNAL_DEST.{{ key }} = dbt_changes.dbt_key_{{ loop.index }}{% endfor %}
    {% for predicate in incremental_predicates or [] %} and ({{ predicate }}){% endfor %}
    when matched then delete
    when not matched and dbt_changes.dbt_act = 'insert' then
      insert ({% for name in names %}{{ adapter.quote(name) }}{{ ', ' if not loop.last }}{% endfor %})
      values ({% for name in names %}dbt_changes.{{ adapter.quote('dbt_new_' ~ name) }}{{ ', ' if not loop.last }}{% endfor %})
  {%- endif -%}
{% endmacro %}

{# One merge replaces the rows of a batch. #}
{% macro hiveacid__get_incremental_microbatch_sql(arg_dict) %}
  {%- set at = 'DBT_INTERNAL_DEST.' ~ adapter.quote(config.get('event_time')) -%}
  {%- set start = config.get('__dbt_internal_microbatch_event_time_start') -%}
  {%- set end = config.get('__dbt_internal_microbatch_event_time_end') -%}
  {%- set columns = arg_dict['dest_columns'] -%}
  merge into {{ arg_dict['target_relation'] }} as DBT_INTERNAL_DEST
  using {{ arg_dict['temp_relation'] }} as DBT_INTERNAL_SOURCE
  on false
  when not matched by source
    {% if start %}and {{ at }} >= timestamp '{{ start }}'{% endif %}
    {% if end %}and {{ at }} < timestamp '{{ end }}'{% endif %}
    {% for predicate in arg_dict['incremental_predicates'] or [] %}and ({{ predicate }}) {% endfor %}
    then delete
  when not matched then
    insert ({{ columns | map(attribute='quoted') | join(', ') }})
    values ({% for column in columns %}DBT_INTERNAL_SOURCE.{{ column.quoted }}{{ ', ' if not loop.last }}{% endfor %})
{% endmacro %}

{# A temporary view without rows, for macros that compare its columns with those of a table. #}
{% macro hiveacid_columns_relation(sql) %}
  {% set relation = make_temp_relation(this).incorporate(type='view') %}
  {% call statement('create_columns_relation') %}
    {{ create_table_as(True, relation, get_empty_subquery_sql(sql)) }}
  {% endcall %}
  {{ return(relation) }}
{% endmacro %}

{% materialization incremental, adapter='hiveacid', supported_languages=['sql', 'python'] -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set unique_key = config.get('unique_key') -%}
  {%- set strategy = config.get('incremental_strategy') or ('merge' if unique_key else 'append') -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
  {%- set write = adapter.get_incremental_strategy_macro(context, strategy) -%}
  {{ run_hooks(pre_hooks) }}
  {% do hiveacid_run_header() %}
  {% set query = hiveacid_query(compiled_code) %}
  {% if existing is none or existing.is_view or should_full_refresh() %}
    {% do hiveacid_write_table(target_relation, existing, query, hiveacid_columns(query), replace=True) %}
  {% elif adapter.was_created_by_run(target_relation, model) %}
    {% call noop_statement('main', 'ALREADY APPLIED', 'ALREADY APPLIED', 0) %}{{ compiled_code }}{% endcall %}
  {% else %}
    {% if config.get('contract').enforced %}{% do get_assert_columns_equivalent(query) %}{% endif %}
    {% set columns_relation = hiveacid_columns_relation(query) %}
    {% set dest_columns = process_schema_changes(on_schema_change, columns_relation, target_relation) %}
    {% if not dest_columns %}
      {% set dest_columns = adapter.get_columns_in_relation(target_relation) %}
    {% endif %}
    {% do adapter.drop_relation(columns_relation) %}
    {% set statement_of_strategy = write({
      'target_relation': target_relation,
      'temp_relation': '(' ~ query ~ '\n)',
      'unique_key': unique_key,
      'dest_columns': dest_columns,
      'incremental_predicates': config.get('predicates') or config.get('incremental_predicates'),
    }) %}
    {% do adapter.name_next_statement(model) %}
    {% call statement('main') %}{{ statement_of_strategy }}{% endcall %}
  {% endif %}
  {% do apply_grants(target_relation, config.get('grants'), should_revoke=False) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}
