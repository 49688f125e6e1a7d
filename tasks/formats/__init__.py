"""Published formats: one file is one format. `wenet_raw.py` is the smallest to copy.

`tasks.plugins.contracts.formats` says what one has.
"""

from ..plugins.contracts.formats import (
    BY_PLACE,
    FRAMES_PER_SECOND,
    PLACE,
    Bound,
    Hashes,
    Output,
    OutputShard,
    PublishedFile,
    ReaderLimits,
    ReadPcm,
    Rows,
)
