"""Whether a corpus mixes telephone with wideband, by the rates of known recordings and of some of
the new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from tasks import audio
from tasks.base.errors import ItemError
from tasks.base.schema import RecordingRow
from tasks.insight.estimating import asked_apart
from tasks.publish.dataset import telephone
from tasks.recording import Locator

SAMPLE = 60  # new files, spread over all
PATIENCE = 10.0  # s for these


def sentences(fresh: Sequence[RecordingRow], listings: Iterable[pa.Table]) -> Iterator[str]:
    """The warning, if there is reason for it. `listings`: known recordings, tables of
    RECORDINGS."""
    nameless = [row for row in fresh if not row["speaker"] and not row["error_code"]]
    sample = nameless[:: -(-len(nameless) // SAMPLE) or 1]
    answers = asked_apart.answers(__name__, [row["locator"] for row in sample], PATIENCE)
    rates = [cast(int, rate) for rate in answers if rate is not None]
    for table in listings:
        theirs = table.filter(pc.and_(table["present"], pc.is_null(table["speaker"])))
        rates += theirs["header_rate"].drop_null().to_pylist()
    narrow = sum(rate < telephone.WIDE for rate in rates)
    if warning := telephone.sentence(narrow, len(rates) - narrow):
        few = "" if len(sample) == len(nameless) else f"Of {len(rates)} that were looked at, "
        yield few + warning


def rate(locator: Locator) -> int | None:
    try:
        return audio.probe(locator).rate
    except (ItemError, OSError):
        return None


if __name__ == "__main__":
    asked_apart.serve(rate)
