"""Damage that decoders do not notice: checksums, lengths and page numbers against the bytes."""
