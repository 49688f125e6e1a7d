"""What a source lists: recordings, where their bytes lie, and the segments given with them."""

from tasks.recording.identity import (
    Ignored,
    Locator,
    Recording,
    Segment,
    guard,
    original,
    printable,
)

__all__ = ["Ignored", "Locator", "Recording", "Segment", "guard", "original", "printable"]
