"""Shared by every room: errors, columns, logs, types, limits of the machine. Imports no other
room."""
