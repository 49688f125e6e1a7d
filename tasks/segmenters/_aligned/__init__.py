"""Finds where the sentences of a text are spoken, for the segmenter `aligned`."""
