"""What a run would do, and what it did: plan, estimate, what-if, report."""
