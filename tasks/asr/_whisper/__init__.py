"""What the recogniser faster_whisper is made of: windows, their languages, words and results."""
