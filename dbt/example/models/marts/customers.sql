{{ config(clustered_by='customer_id', buckets=2) }}

select
    c.customer_id,
    c.name,
    min(o.ordered_on) as first_order,
    count(o.order_id) as orders,
    coalesce(sum(o.amount), 0) as amount
from {{ ref('stg_customers') }} c
left join {{ ref('orders') }} o on o.customer_id = c.customer_id
group by c.customer_id, c.name
