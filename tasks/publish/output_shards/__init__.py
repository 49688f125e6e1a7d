"""Which clips lie in which output shard, and the plan from which workers write them."""
