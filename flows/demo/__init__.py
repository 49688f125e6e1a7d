"""The demo corpus: sentences written for it, spoken by espeak-ng."""
