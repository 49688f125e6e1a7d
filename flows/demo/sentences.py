"""The demo corpus's texts: sentences written for it, without digits or names."""

from __future__ import annotations

from importlib.resources import files

_PARTS = files("flows.demo").joinpath("sentences.txt").read_text("utf-8").strip().split("\n\n")
#: The Spanish ones are longer: Whisper needs more of a synthetic Spanish voice to be sure of it.
#: The story is for the recording of ten minutes.
ENGLISH, SPANISH, GERMAN, STORY = (tuple(part.split("\n")) for part in _PARTS)
