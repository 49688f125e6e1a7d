"""Limits on the length of a recording, and on the audio that its bytes may expand to. A decoder
stops one sample after the limit, so the stored length of a recording that was decoded further shows
what a lower limit would have left of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import FilterSettings

#: Codes of recordings beyond a limit.
TOO_LONG, EXPANDS = "too_long", "expands"
REFUSED = (TOO_LONG, EXPANDS)
#: Seconds that may be decoded of any recording, however far it expands: a silent clip is not a
#: bomb.
FREE_SECONDS = 600.0
WIDTH = 2  # bytes of a sample, when expansion is computed
#: Containers whose header counts samples. For others FFmpeg estimates the length from a bit rate or
#: the first frames, too roughly to refuse a recording.
_COUNTED = ("wav", "wavex", "rf64", "w64", "aiff", "caf", "flac", "wv", "tta", "ape", "mov")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A recording beyond a limit: `value` was measured or stated, `threshold` is the limit.
    `decoded`: samples."""

    code: str
    decoded: int
    value: float
    threshold: float
    detail: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Most hours of a recording, and most bytes of 16-bit audio from one encoded byte."""

    hours: float
    expansion: float

    @classmethod
    def from_settings(cls, settings: FilterSettings) -> Limits:
        return cls(settings.max_hours, settings.max_expansion)

    def most(self, rate: int, channels: int, size: int) -> int:
        """Most samples that may be decoded from a recording of `size` bytes."""
        expanded = int(self.expansion * size / (WIDTH * channels))
        return min(int(self.hours * 3600 * rate), max(expanded, int(FREE_SECONDS * rate)))

    def of_decoded(self, rate: int, channels: int, size: int, decoded: int) -> Refusal | None:
        """The refusal of a recording of which at least `decoded` samples were decoded; None if it
        is within the limits."""
        past = self.most(rate, channels, size) + 1
        return self._refusal(rate, channels, size, past, past) if decoded >= past else None

    def of_header(
        self, form: str, rate: int, channels: int, size: int, seconds: float
    ) -> Refusal | None:
        """The refusal of a recording by its header, before decoding; None if it may be decoded.
        `form`: its format."""
        stated = round(seconds * rate)
        if form.split("/")[0] not in _COUNTED or stated <= self.most(rate, channels, size):
            return None
        return self._refusal(rate, channels, size, stated, 0)

    def _refusal(self, rate: int, channels: int, size: int, samples: int, decoded: int) -> Refusal:
        hours = samples / rate / 3600
        how = "it holds more than" if decoded else "by its header it holds"
        if samples > int(self.hours * 3600 * rate):
            what = f"{how} {hours:.4g} h; cut it into parts, or raise filter.max_hours"
            return Refusal(TOO_LONG, decoded, hours, self.hours, what)
        expansion = samples * WIDTH * channels / size
        what = (
            f"{how} {hours:.4g} h in {size} bytes, {expansion:.0f} bytes of audio from each, as "
            "only silence does; take it out, or raise filter.max_expansion"
        )
        return Refusal(EXPANDS, decoded, expansion, self.expansion, what)
