"""A published version: what it holds, where it lies, its checking and its removal."""
