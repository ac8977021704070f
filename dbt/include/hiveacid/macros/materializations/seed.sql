{% materialization seed, adapter='hiveacid' %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set agate_table = load_agate_table() -%}
  {%- do store_result('agate_table', response='OK', agate_table=agate_table) -%}
  {% if existing is not none and existing.is_view %}
    {% do exceptions.raise_compiler_error("Cannot seed to '" ~ existing ~ "', it is a view") %}
  {% endif %}
  {{ run_hooks(pre_hooks) }}
  {%- set overrides = model['config'].get('column_types', {}) -%}
  {%- set columns = [] -%}
  {%- for name in agate_table.column_names -%}
    {%- if not modules.re.fullmatch('\\w+', name) -%}
      {% do exceptions.raise_compiler_error(
        "Syntax error in the header of " ~ model['original_file_path'] ~ ": '" ~ name
        ~ "' is no plain name. Correct the delimiter, or the name.") %}
    {%- endif -%}
    {%- do columns.append(api.Column(name, overrides.get(name, adapter.convert_type(agate_table, loop.index0)))) -%}
  {%- endfor -%}
  {%- set rows = adapter.create_seed_view(agate_table) -%}
  {%- set sql -%}
    select {% for column in columns %}cast({{ column.quoted }} as {{ column.dtype }}) as {{ column.quoted }}
      {{- ', ' if not loop.last }}{% endfor %}
    from {{ rows }}
  {%- endset -%}
  {% do hiveacid_write_table(target_relation, existing, sql, columns, should_full_refresh()) %}
  {% do apply_grants(target_relation, config.get('grants'), should_revoke=False) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
