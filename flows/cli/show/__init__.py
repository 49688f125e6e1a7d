"""What people see of results: short tables and sentences on a rich console."""
