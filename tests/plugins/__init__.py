"""Plug-ins that misbehave on purpose, chosen by dotted name."""
