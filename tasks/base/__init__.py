"""Shared by all rooms: errors, columns, logs, types, limits of the machine. Imports no other
room."""
