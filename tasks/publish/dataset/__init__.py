"""A published dataset version: its place, its description and its data card."""
