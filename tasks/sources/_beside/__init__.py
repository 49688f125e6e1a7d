"""Texts that lie beside the recordings of a folder, in files of the same stem."""
