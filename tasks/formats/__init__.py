"""Shelf of published formats."""
