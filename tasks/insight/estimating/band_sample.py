"""Warns of a corpus that mixes telephone and wideband audio, by the sample rates of known
recordings and of a sample of new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.schema import RecordingRow
from tasks.insight.estimating import asked_apart
from tasks.publish.dataset import speaker_warnings

SAMPLE = 60  # new files, spread evenly over all
PATIENCE = 10.0  # s, for all of them


def sentences(fresh: Sequence[RecordingRow], listings: Iterable[pa.Table]) -> Iterator[str]:
    """The warning, if both bands occur. `fresh`: new recordings; `listings`: tables (RECORDINGS) of
    known ones."""
    nameless = [row for row in fresh if not row["speaker"] and not row["error_code"]]
    sample = nameless[:: -(-len(nameless) // SAMPLE) or 1]
    answers = asked_apart.headers([row["locator"] for row in sample], PATIENCE)
    rates = [header["rate"] for header in answers if header is not None]
    for table in listings:
        nameless_rows = table.filter(pc.and_(table["present"], pc.is_null(table["speaker"])))
        rates += nameless_rows["header_rate"].drop_null().to_pylist()
    narrow = sum(rate < speaker_warnings.WIDE for rate in rates)
    if warning := speaker_warnings.of_bands(narrow, len(rates) - narrow):
        scope = "" if len(sample) == len(nameless) else f"Of {len(rates)} that were looked at, "
        yield scope + warning
