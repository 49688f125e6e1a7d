"""The demo corpus: sentences of our own, spoken by espeak-ng."""
