{{ config(materialized="incremental", incremental_strategy="merge", unique_key="id") }}
SELECT id, max_by(name, price) AS name, max(price) AS price FROM {{ ref("landing") }} GROUP BY id
