{{ config(materialized="table") }}
SELECT count(*) AS orders, sum(price) AS price FROM {{ ref("orders") }}
