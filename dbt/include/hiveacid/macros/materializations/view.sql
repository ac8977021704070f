{% materialization view, adapter='hiveacid' -%}
  {%- set existing = load_cached_relation(this) or adapter.give_back(this) -%}
  {%- set leftovers = adapter.leftovers(this) -%}
  {%- set target_relation = this.incorporate(type='view') -%}
  {{ run_hooks(pre_hooks) }}
  {% do hiveacid_run_header() %}
  {% if existing is not none and existing.is_table %}
    {# The view is made under another name first: if its query is invalid, the table stays. #}
    {% set trial = adapter.new_relation(target_relation).incorporate(type='view') %}
    {% call statement('trial') %}{{ get_create_view_as_sql(trial, sql) }}{% endcall %}
    {% set old = adapter.old_relation(existing) %}
    {% do adapter.rename_relation(existing, old) %}
    {% call statement('main') %}{{ get_create_view_as_sql(target_relation, sql) }}{% endcall %}
    {% set leftovers = leftovers + [trial, old] %}
  {% else %}
    {% call statement('main') %}{{ get_create_view_as_sql(target_relation, sql) }}{% endcall %}
  {% endif %}
  {% for each in leftovers %}{% do adapter.drop_relation(each) %}{% endfor %}
  {% do apply_grants(target_relation, config.get('grants'), should_revoke=False) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}

{# Views have no copies: a clone of a table is a view of it, too. #}
{% macro hiveacid__can_clone_table() %}
  {{ return(False) }}
{% endmacro %}

{%- materialization clone, adapter='hiveacid' -%}
  {# A view of itself would replace the relation. #}
  {% if defer_relation and defer_relation.render() | lower == this.render() | lower and load_cached_relation(this) %}
    {{ log("Target relation and defer relation are the same, skipping clone for relation: " ~ this.render()) }}
    {{ return({'relations': []}) }}
  {% endif %}
  {{ return(dbt.materialization_clone_default()) }}
{%- endmaterialization -%}
