"""Names of speakers across recordings in the rows of a version.

In the outcomes of a shard, a voice that the diarizer found is named `<path>#<number>`. Code that
reads these rows replaces that name by the speaker's name across recordings.

    speakers.parquet    the speaker of each voice of each recording (`corpus.identities`)
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import storage
from ..base.arrays import Int32s, UInt64s
from ..base.counting import counted
from ..base.json_types import DatasetJson
from ..base.schema import LEDGER_FILE, SPEAKERS, UTTERANCES_FILE
from ..recording import forgotten
from ..recording.names import are_over_all
from ..settings.job import Job
from ..settings.package import keeps_speakers_apart
from ..shard_store import recipe
from ..storage import sorted_keys, tables
from ..storage.versions import Proved
from .corpus import identities
from .corpus.identities import VoiceTables

FILE = identities.FILE

VOICE = "voice"  # prefix of the names that are hashed, see `sorted_keys.draws`


class Speakers(NamedTuple):
    voices: UInt64s  # hashes of the voices' names (`<recording>#<number>`), sorted
    number: Int32s  # of each voice, index of its speaker in `names`
    names: list[str]

    def called(self, rows: pa.Table) -> pa.Table:
        """The rows (columns dataset, speaker), with names of voices replaced by their speakers';
        where the voice is unknown, the row keeps its own."""
        numbers = sorted_keys.value_of(self.voices, self.number, voices_of(rows))
        names = pa.array(self.names, pa.string()).take(pa.array(numbers, mask=numbers < 0))
        return tables.replaced(rows, "speaker", pc.coalesce(names, rows["speaker"]))


def link(job: Job, parts: VoiceTables, newest: Path | None, scratch: Path) -> Speakers | None:
    """The speakers of all voices in `parts` (VOICES); None if the settings do not link speakers
    across recordings. Saves the tables of the next `speakers.parquet` in `scratch`."""
    least = recipe.across_recordings(job)
    if least is None:
        return None
    how = recipe.of_plugin("diarizers", job.speakers)
    gone, before = forgotten.read(job.out), published(newest)
    former, package = partial(map, gone.without), job.package
    linked = identities.link(
        parts, lambda: former(before()), least, how, package.refit, package.memory, job.scratch
    )
    with storage.store_of(scratch).writing(scratch) as home:
        tables.write_arrow(home / FILE, linked)
    batches = tables.arrow_batches(scratch / FILE)
    return of_tables(pa.Table.from_batches([batch]) for batch in batches)


def of_tables(parts: Iterable[pa.Table]) -> Speakers:
    """The speakers of all voices in these tables (SPEAKERS)."""
    codes, numbers = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    number_by_name: dict[str, int] = {}
    for part in parts:
        codes.append(sorted_keys.draws(VOICE, identities.voices(part, "recording")))
        numbers.append(tables.numbered(part["speaker"], number_by_name))
    hashes, number = tables.joined(codes), tables.joined(numbers)
    order = np.argsort(hashes, kind="stable")
    return Speakers(hashes[order], number[order], [*number_by_name])


def published(version: Path | None) -> VoiceTables:
    """Reads `speakers.parquet` of a version; empty if the version has none. The reader raises
    RunError if the file is damaged."""
    if version is None or not storage.exists(version / FILE):
        return list
    return partial(tables.row_groups, version / FILE, SPEAKERS.names, Proved(version))


def voices_of(rows: pa.Table) -> UInt64s:
    """The hash of each row's voice (columns dataset, speaker); uint64 [rows]."""
    names = pc.binary_join_element_wise(rows["dataset"], rows["speaker"], "/")
    words = tables.coded(names)
    hashes = np.r_[sorted_keys.draws(VOICE, words.dictionary.to_pylist()), np.uint64(0)]
    codes = words.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    voice_hashes: UInt64s = hashes[codes]
    return voice_hashes


# Warnings of speakers whom splits may not keep apart: unknown ones, and people recorded both over
# the telephone and in wideband, who may get two names.

WIDE = 16_000  # Hz; voices in recordings of a lower rate do not match those in wider ones well


def unknown_warning(facts: DatasetJson) -> str | None:
    """A warning with the remedy; None if the splits keep all speakers apart, or need not."""
    package = facts["settings"]["package"]
    unknown = facts["speakers"]["hours_unknown"]
    if not unknown or not keeps_speakers_apart(package["splits"], package.get("disjoint")):
        return None
    hours = facts["seconds"]["packaged"] / 3600
    count = "" if package["leaks_by_voice"] else "; package.leaks_by_voice=true counts such clips"
    return (
        f"speakers of {unknown:.3f} of {hours:.3f} h are unknown, so the same person may be in two "
        "splits; name speakers in the sources, or set speakers.use=segments to find them, and "
        f"package.resplit=true, which draws the splits again{count}"
    )


def bands_matter(job: Job) -> bool:
    """Whether splits or hours per speaker depend on speakers that are named by their voices."""
    package = job.package
    by_speaker = keeps_speakers_apart(package.splits, package.disjoint)
    by_speaker = by_speaker or package.max_hours_per_speaker is not None
    return by_speaker and recipe.across_recordings(job) is not None


def bands_warning(narrow: int, wide: int) -> str | None:
    """A warning, by the numbers of recordings below WIDE and of others; None if one is 0."""
    if not narrow or not wide:
        return None
    have = "has" if narrow == 1 else "have"
    return (
        f"{counted(narrow, 'recording')} {have} the band of a telephone (below {WIDE // 1000} kHz)"
        f" and {wide:,} a wider one: speakers.use=segments may give a person heard in both two "
        "names, and package.splits may put one on each side; name the speakers in the sources, or "
        "run each band into an OUT of its own"
    )


def bands_warning_in(job: Job, version: Path) -> str | None:
    """`bands_warning` for the packaged recordings of a version whose speakers are named by their
    voices; None if `bands_matter` is false."""
    if not bands_matter(job):
        return None
    linked = are_over_all(pc.field("speaker"))
    clips = tables.read(version / UTTERANCES_FILE, columns=["recording"], filters=linked)
    names = clips["recording"].unique()
    ledger = tables.read(
        version / LEDGER_FILE,
        columns=["recording", "sample_rate"],
        filters=pc.field("recording").isin(names) & pc.is_valid(pc.field("sample_rate")),
    )
    rates = ledger.group_by("recording").aggregate([("sample_rate", "max")])["sample_rate_max"]
    narrow = pc.sum(pc.less(rates, WIDE)).as_py() or 0
    return bands_warning(narrow, len(rates) - narrow)
