"""The sample rate of speech models: recognisers, voice detection, diarizers, DNSMOS."""

RATE = 16_000  # Hz
