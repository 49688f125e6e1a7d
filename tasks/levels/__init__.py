"""Levels: what is done to an utterance after resampling, before it becomes int16.

`tasks.plugins.contracts.levels` says what one has.
"""
