"""Whole runs of the command with real models on real or spoken audio."""
