"""What every room uses and that uses no other: errors, columns, logs, types, limits of the
machine."""
