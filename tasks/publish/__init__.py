"""Publishes a version: decides outcomes, chooses and splits clips, lays them out, writes them."""
