"""The DAGs of the playground, which parses copies of them."""
