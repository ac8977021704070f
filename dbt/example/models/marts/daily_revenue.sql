{{ config(insert_only=true, contract={'enforced': true}) }}

select ordered_on, count(*) as orders, cast(sum(amount) as decimal(22, 2)) as amount
from {{ ref('orders') }}
where status <> 'returned'
group by ordered_on
