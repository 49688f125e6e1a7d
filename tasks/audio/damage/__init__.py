"""Damage that decoders miss: compares checksums, lengths and page numbers with the bytes."""
