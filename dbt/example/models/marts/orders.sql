{{ config(
    materialized='incremental',
    unique_key='order_id',
    partition_by='ordered_on',
    on_schema_change='append_new_columns'
) }}

select
    o.order_id,
    o.customer_id,
    o.status,
    coalesce(sum(p.amount), 0) as amount,
    o.ordered_on
from {{ ref('stg_orders') }} o
left join {{ ref('stg_payments') }} p on p.order_id = o.order_id
{% if is_incremental() %}
where o.ordered_on >= (select max(ordered_on) from {{ this }})
{% endif %}
group by o.order_id, o.customer_id, o.status, o.ordered_on
