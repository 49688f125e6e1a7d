"""Shelf of filters, which measure an utterance and put limits on the measures. A plug-in has

    VERSION: int                                # raise it when the numbers change
    COLUMNS: dict[str, tuple[str, str]]         # column: (unit, one line of doc)
    class Settings(StageSettings)               # limits marked THRESHOLD
    def measure(clip: Clip, settings) -> dict[str, float | None]
    def verdict(settings) -> tuple[Rule, ...]   # tasks.plugins.rules

and may have

    COSTLY = True                               # not measured if a cheap verdict rejects the row
    AFTER_ALL = True                            # measured again once the whole recording is
                                                # decoded and `clip` knows its faults and length
    def fingerprint(clip, settings) -> bytes    # stored beside the measures, for `decide`
    def decide(rows, settings, frozen)          # a verdict over the whole corpus: tasks.corpuswide
    def identity(settings) -> str               # sha256 of its model; ConfigError if missing

`clip` is `tasks.audio.Clip`: native rate, all channels, float32 in ±1. A column is called like its
filter, or `<filter>_<part>`; its limits are `min` and `max`, or `min_<part>` and `max_<part>`.
"""
