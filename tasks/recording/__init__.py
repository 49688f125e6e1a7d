"""Recordings as sources list them: identity, names, guards, and their bytes as file objects."""

from .locator import Ignored, Locator, Recording, Segment, TimedWord
