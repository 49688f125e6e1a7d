"""Finds personal numbers and addresses in a text, written and said."""
