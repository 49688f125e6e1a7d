"""espeak-ng with the times of what it says: samples, phones and words of each line.

It runs as a child process, as the demo's voice does, and for the same reasons
(`tasks/speech/espeak.py`): JSON on stdin; on stdout for each line one of JSON and its PCM.
"""

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RATE = 22050  # Hz
VOWELS = frozenset("aeiouyɐɑɒæɓəɘɚɛɜɝɞɤɨɪɯɔøœɵʉʊʌʏɶᵻ")
SYLLABIC = "\N{COMBINING VERTICAL LINE BELOW}"
_SYNCHRONOUS, _PHONEMES, _IPA = 2, 1, 2  # AUDIO_OUTPUT_SYNCHRONOUS, espeakINITIALIZE_…
_SPEED, _PITCH = 1, 3  # espeak_PARAMETER
_WORD, _PHONE = 1, 7  # espeak_EVENT_TYPE

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Line:
    """Speed in words a minute, pitch 0 to 99."""

    text: str
    voice: str
    speed: int = 150
    pitch: int = 50


@dataclass(frozen=True, slots=True)
class Spoken:
    """Mono samples [n] at `RATE`; phones as (IPA, start s), pauses as ("", start s); words as
    (first character in the text, characters, start s)."""

    samples: Floats
    phones: tuple[tuple[str, float], ...]
    words: tuple[tuple[int, int, float], ...]

    @property
    def syllables(self) -> int:
        """Phones with a vowel, and syllabic consonants; a diphthong is one phone."""
        return sum(bool(VOWELS & set(name)) or SYLLABIC in name for name, _ in self.phones)

    @property
    def spoken_seconds(self) -> float:
        """How long its phones sound, pauses left out."""
        ends = [start for _, start in self.phones[1:]] + [len(self.samples) / RATE]
        pairs = zip(self.phones, ends, strict=True)
        return sum(end - start for (name, start), end in pairs if name)


class TimedWord(NamedTuple):
    """First character in the text, characters, and where it starts and ends, s."""

    first: int
    length: int
    start: float
    end: float


def timed_words(spoken: Spoken) -> list[TimedWord]:
    """Words from their first phone to the end of their last one."""
    ends = [start for _, start in spoken.phones[1:]] + [len(spoken.samples) / RATE]
    sounding = [
        (start, end)
        for (name, start), end in zip(spoken.phones, ends, strict=True)
        if name and end > start
    ]
    following = [start for _, _, start in spoken.words[1:]] + [float("inf")]
    words = []
    for (first, length, start), later in zip(spoken.words, following, strict=True):
        inside = [span for span in sounding if start - 1e-6 <= span[0] < later - 1e-6]
        if inside:
            words.append(TimedWord(first, length, inside[0][0], inside[-1][1]))
    return words


def speak(lines: list[Line]) -> list[Spoken]:
    child = subprocess.run(
        [sys.executable, "-m", "tests.helpers.timed_speech"],
        input=json.dumps([asdict(line) for line in lines]).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=600,
    )
    spoken, rest = [], memoryview(child.stdout)
    for _ in lines:
        size = int.from_bytes(rest[:8], "little")
        head = json.loads(bytes(rest[8 : 8 + size]))
        rest = rest[8 + size :]
        samples = np.frombuffer(rest[: head["bytes"]], "<i2").astype(np.float32) / np.float32(32768)
        rest = rest[head["bytes"] :]
        phones = tuple((name, start) for name, start in head["phones"])
        spoken.append(Spoken(samples, phones, tuple(map(tuple, head["words"]))))
    return spoken


class _Event(ctypes.Structure):
    class _Id(ctypes.Union):
        _fields_ = (
            ("number", ctypes.c_int),
            ("name", ctypes.c_char_p),
            ("string", ctypes.c_char * 8),
        )

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),  # ms
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    )


def main() -> None:
    import espeakng_loader

    path = Path(espeakng_loader.get_library_path())
    library = ctypes.CDLL(str(path))
    os.chdir(path.parent)  # its buffer for the path of its data holds 160 characters
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, b".", _PHONEMES | _IPA)
    if rate != RATE:
        raise RuntimeError(f"espeak-ng gave {rate} instead of {RATE} Hz; its data are damaged")
    library.espeak_ng_SetRandSeed.argtypes = [ctypes.c_long]
    number = ctypes.c_uint
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, number, ctypes.c_int, number, number,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    blocks: list[bytes] = []
    phones: list[tuple[str, float]] = []
    words: list[tuple[int, int, float]] = []

    def keep(samples: int | None, count: int, events: ctypes.Array[_Event]) -> int:
        if samples and count > 0:
            blocks.append(ctypes.string_at(samples, 2 * count))
        place = 0
        while (event := events[place]).type:
            start = event.audio_position / 1000
            if event.type == _PHONE:
                # Stress and pauses have no letters.
                name = event.id.string.decode("utf-8", "ignore").strip("ˈˌ_:-| ")
                phones.append((name, start))
            elif event.type == _WORD:
                words.append((event.text_position - 1, event.length, start))
            place += 1
        return 0  # go on

    signature = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_Event)
    )
    callback = signature(keep)
    library.espeak_SetSynthCallback(callback)
    for line in json.load(sys.stdin):
        for events in (blocks, phones, words):
            events.clear()
        if library.espeak_SetVoiceByName(line["voice"].encode()):
            raise RuntimeError(f"espeak-ng has no voice {line['voice']!r}")
        library.espeak_SetParameter(_SPEED, line["speed"], 0)
        library.espeak_SetParameter(_PITCH, line["pitch"], 0)
        library.espeak_ng_SetRandSeed(1)  # some voices breathe noise
        data = line["text"].encode() + b"\0"
        library.espeak_Synth(data, len(data), 0, 1, 0, 1, None, None)
        library.espeak_Synchronize()
        pcm = b"".join(blocks)
        head = json.dumps({"bytes": len(pcm), "phones": phones, "words": words}).encode()
        sys.stdout.buffer.write(len(head).to_bytes(8, "little") + head + pcm)


if __name__ == "__main__":
    main()
