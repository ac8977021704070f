select id as payment_id, order_id, method, cast(cents as decimal(12, 2)) / 100 as amount
from {{ ref('raw_payments') }}
