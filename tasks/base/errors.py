"""Every error that uttermill raises on purpose.

    MillError                 a problem that a person can solve: one sentence, cause and remedy
    ├── ConfigError           wrong settings or usage; raised before a worker starts (exit 2)
    ├── RunError              the run cannot go on or refuses to publish (exit 1)
    │   ├── NothingLeft       every recording was dropped or failed, with the reasons
    │   ├── TooManyFailed     more recordings failed than max_failed_fraction allows
    │   └── KilledFromOutside an item's process was killed, as far as known not because of the item
    ├── OutLocked             another run holds the lock of OUT (exit 4)
    ├── CorruptManifest       a checkpoint or blob has changed since its commit: it is recomputed
    ├── UnsafePlace           a name from data leads out of its folder, or over a link
    ├── ConservationError     samples were lost or counted twice: a bug of uttermill
    └── ItemError             one item is bad: it is quarantined, and the shard goes on

Only `ItemError` is caught around an item. Anything else is a bug and ends the shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import masking
from .json_types import Reason


class MillError(Exception):
    """Base class; `str(error)` is the message shown: one line, without the credentials of URLs."""

    def __str__(self) -> str:
        return masking.sentence(str(self.args[0]) if self.args else "")

    def __repr__(self) -> str:  # Prefect logs it
        return f"{type(self).__name__}({str(self)!r})"


class ConfigError(MillError):
    """Wrong settings or usage. Raise it before work starts, and say what to correct."""


class RunError(MillError):
    """The run cannot go on, or refuses to publish. Say why, and name the remedy."""


class NothingLeft(RunError):
    """There is no clip to package. `reasons`: as in a summary; `ignored`: number of files skipped
    while listing, by reason; `notes`: the first recordings that failed, then sentences about
    sources."""

    def __init__(
        self,
        message: str,
        reasons: Mapping[str, Reason] | None = None,
        ignored: dict[str, int] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(message, reasons, ignored, notes)
        self.reasons, self.ignored, self.notes = reasons or {}, ignored or {}, tuple(notes)

    def __str__(self) -> str:
        counts = [f"{entry['items']} {name}" for name, entry in self.reasons.items()]
        counts += [f"{count} skipped as {name}" for name, count in self.ignored.items()]
        sentence = f"{self.args[0]} ({', '.join(counts)})" if counts else str(self.args[0])
        return masking.sentence(sentence)


class TooManyFailed(RunError):
    """More recordings failed than allowed; `broken`: messages about the first of them."""

    def __init__(self, message: str, broken: Sequence[str] = ()) -> None:
        super().__init__(message, broken)
        self.broken = tuple(broken)

    def __str__(self) -> str:
        named = f": {', '.join(self.broken)}" if self.broken else ""
        return masking.sentence(f"{self.args[0]}{named}")


class KilledFromOutside(RunError):
    pass


class OutLocked(MillError):
    pass


class CorruptManifest(MillError):
    """The file `path` differs from what was committed, and must be discarded."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message, path)
        self.path = path


class UnsafePlace(MillError, ValueError):
    """Also a ValueError: a file that holds such a name is as useless as one that is not JSON."""


class ConservationError(MillError):
    pass


class ItemError(MillError):
    """One item is bad: it fails, and the run goes on. `code` is stable and appears in the ledger;
    `detail`: a sentence. `decoded`: samples decoded before, which count as failed; `rate`: in
    Hz."""

    def __init__(self, code: str, detail: str = "", decoded: int = 0, rate: int = 0) -> None:
        detail = masking.text(detail)  # manifests keep it
        # Exception needs all arguments: pickling rebuilds the error from them.
        super().__init__(code, detail, decoded, rate)
        self.code = code
        self.detail = detail
        self.decoded = decoded
        self.rate = rate

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.detail else self.code


MOST_DETAIL = 500  # characters kept of a detail, because a library may quote a whole file


def shortened(detail: str) -> str:
    """The part of a detail that manifests and the ledger keep."""
    return detail[:MOST_DETAIL]


UNREACHABLE, KILLED = "unreachable", "killed"
#: Stable codes of quarantined recordings and utterances, with their meaning.
CODES = {
    "unreadable": "no decoder opens it",
    "empty": "it decodes to no samples",
    "decode_error": "it cannot be read on midway; the decoded prefix is counted as failed",
    "truncated": "the container promises more audio than the file holds",
    "non_finite": "samples are NaN or infinite",
    "bad_sample_rate": "the sample rate is outside 1 kHz to 768 kHz",
    "too_long": "it is longer than `filter.max_hours` allows; what was decoded by then is counted",
    "expands": "more audio comes out of its bytes than `filter.max_expansion` allows",
    "missing": "the list names a file that is not there",
    "unsupported": "the list asks for something that is not run (a Kaldi pipe, say)",
    "bad_text": "its text file cannot be understood, or its encoding is not certain",
    "bad_rttm": "its RTTM file, which says who speaks when, cannot be understood",
    "segment_outside_audio": "the segment lies or ends beyond the end of the recording",
    "duplicate_segment": "the source gives this span before, with another text",
    "crashed": "a native library crashed on it, in a process of its own",
    "out_of_memory": "it needs more memory than a worker may have",
    "timeout": "it did not finish within its deadline",
    UNREACHABLE: "its disk, share or store failed, or refused it; the next run tries it again",
    KILLED: "its process was killed from outside, for want of memory, say; the next run tries it "
    "again",
    "link_outside": "it became a link that leads out of its source while the run read it",
    "changed": "the file changed while the run read it; the next run takes it",
    "channels_cancel": "its channels cancel each other: their mean leaves nothing of it",
    "over_full_scale": "too much of it lies beyond full scale, where it is cut off",
    "asr_error": "the recogniser refused it",
    "empty_answer": "the language model wrote nothing; the text stayed as it was",
    "odd_marks": "the language model wrote marks that no sentence has; the text stayed as it was",
    "words_changed": "the language model changed words; the text stayed as it was",
    "odd_answer": "the language model's answer is not among a question's; its label is null",
    "no_answer": "the language model gave no answer for it; the text stayed as it was",
    "cut_by_person": "a person moved the boundaries of a clip, and nothing else holds this",
    "person": "a person decided so: `uttermill review export` says who and why",
}

#: Codes of failures that lie in a file's bytes, whatever is measured of it.
IN_THE_FILE = ("unreadable", "empty", "decode_error", "truncated", "non_finite")
#: Codes of failures that are not the item's fault. They count in the version that is being
#: published, and every run tries the items again.
PASSING = (UNREACHABLE, KILLED)
#: Codes of failures that may be temporary, because the machine or a remote recogniser caused them;
#: `shard.retry` tries such items again.
MAY_PASS = ("crashed", "timeout", "out_of_memory", "asr_error", "no_answer")
