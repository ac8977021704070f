{{ config(materialized="view") }}
SELECT * FROM VALUES (1, 'one', 10), (2, 'two', 20) AS v(id, name, price)
{% if var("later", false) %}
UNION ALL SELECT 2, 'second', 21 UNION ALL SELECT 3, 'three', 30
{% endif %}
