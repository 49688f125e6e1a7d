"""What every room uses: errors, columns, logs, types, limits of the machine. Imports no other
room."""
