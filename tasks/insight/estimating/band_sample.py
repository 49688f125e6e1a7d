"""Whether a corpus mixes telephone with wideband, by the rates of known recordings and of some of
the new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.schema import RecordingRow
from tasks.insight.estimating import asked_apart
from tasks.publish.dataset import speaker_warnings

SAMPLE = 60  # new files, spread over all
PATIENCE = 10.0  # s for these


def sentences(fresh: Sequence[RecordingRow], listings: Iterable[pa.Table]) -> Iterator[str]:
    """The warning, if there is reason for it. `listings`: known recordings, tables of
    RECORDINGS."""
    nameless = [row for row in fresh if not row["speaker"] and not row["error_code"]]
    sample = nameless[:: -(-len(nameless) // SAMPLE) or 1]
    answers = asked_apart.headers([row["locator"] for row in sample], PATIENCE)
    rates = [header["rate"] for header in answers if header is not None]
    for table in listings:
        theirs = table.filter(pc.and_(table["present"], pc.is_null(table["speaker"])))
        rates += theirs["header_rate"].drop_null().to_pylist()
    narrow = sum(rate < speaker_warnings.WIDE for rate in rates)
    if warning := speaker_warnings.of_bands(narrow, len(rates) - narrow):
        few = "" if len(sample) == len(nameless) else f"Of {len(rates)} that were looked at, "
        yield few + warning
