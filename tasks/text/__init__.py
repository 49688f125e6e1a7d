"""Shelf of verdicts on text, over what the transcribe stage stored. A plug-in has

    class Settings(StageSettings)               # all THRESHOLD
    def verdict(settings) -> tuple[Rule, ...]   # tasks.rules
    def decide(rows, settings, frozen)          # optional: over the whole corpus, tasks.corpuswide

Columns to judge: text, text_chars, language, language_probability, avg_logprob,
no_speech_probability, compression_ratio, wer, cer.
"""
