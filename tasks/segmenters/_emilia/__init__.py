"""Cuts speech as Emilia-Pipe does, for `vad` with its rules."""
