"""espeak-ng in a child process. Its phonemes, as JSON lines on stdin and stdout:

    in    {"voices": ["en-us", "en"], "texts": ["hello", …]}     voices: the first that it has
    out   ["həlˈoʊ", …], or null if it has none of the voices

With the argument `speak` its speech, for the demo:

    in    [{"text": …, "voice": "en-us+f2", "speed": 150, "pitch": 50}, …]   speed in words a minute
    out   for each: length in bytes (uint64, little-endian), then int16 mono at 22050 Hz

A separate process, because the library is GPL-3 and must not be linked into uttermill, because its
crash must not end a worker, and so that speech keeps no state from earlier runs.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

RATE = 22050  # Hz
_SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: samples go to a callback, no audio device
_UTF8, _IPA = 1, 2  # espeakCHARS_UTF8, espeakPHONEMES_IPA
_SPEED, _PITCH, _CHARACTERS = 1, 3, 1  # espeak_PARAMETER, POS_CHARACTER


class _Voice(ctypes.Structure):
    """espeak_VOICE; by `languages` alone, espeak-ng takes its best voice of a language."""

    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("name", "languages", "identifier")),
        *((name, ctypes.c_ubyte) for name in ("gender", "age", "variant", "unused")),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    )


def started() -> ctypes.CDLL:
    import espeakng_loader

    path = Path(espeakng_loader.get_library_path())
    library = ctypes.CDLL(str(path))
    # Its buffer for the path of its data holds 160 characters; some paths are longer.
    os.chdir(path.parent)
    number, text = ctypes.c_int, ctypes.c_char_p
    library.espeak_Initialize.argtypes = [number, number, text, number]
    if library.espeak_Initialize(_SYNCHRONOUS, 0, b".", 0) != RATE:
        raise RuntimeError("espeak-ng does not start; its data are damaged")
    library.espeak_SetVoiceByName.argtypes = [text]
    return library


def transcriber(library: ctypes.CDLL) -> Callable[[Sequence[str], Sequence[str]], list[str] | None]:
    """A function (voices, texts) -> IPA of each text, one clause a line; None without a voice."""
    number, text = ctypes.c_int, ctypes.c_char_p
    library.espeak_SetVoiceByProperties.argtypes = [ctypes.POINTER(_Voice)]
    library.espeak_TextToPhonemes.restype = text
    library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(text), number, number]
    current = ""

    def clauses(words: str) -> str:
        rest, spoken = ctypes.c_char_p(words.encode()), list[str]()
        while rest.value is not None:
            clause = library.espeak_TextToPhonemes(ctypes.byref(rest), _UTF8, _IPA)
            spoken.append((clause or b"").decode())
        return "\n".join(spoken)

    def chosen(voice: str) -> bool:
        by_language = _Voice(languages=voice.encode())
        failed = library.espeak_SetVoiceByName(voice.encode())
        return not (failed and library.espeak_SetVoiceByProperties(ctypes.byref(by_language)))

    def transcribe(voices: Sequence[str], texts: Sequence[str]) -> list[str] | None:
        nonlocal current
        if current not in voices[:1]:  # choosing one takes longer than a sentence
            current = next(filter(chosen, voices), "")
            if not current:
                return None
        return [clauses(words) for words in texts]

    return transcribe


def speak(library: ctypes.CDLL, lines: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """int16 samples at RATE of each line."""
    number, text, place = ctypes.c_uint, ctypes.c_char_p, ctypes.c_void_p
    library.espeak_ng_SetRandSeed.argtypes = [ctypes.c_long]
    # Text and its size in bytes; position, its kind, end, flags; identifier, data of the callback.
    sizes = (ctypes.c_size_t, number, ctypes.c_int, number, number)
    library.espeak_Synth.argtypes = [text, *sizes, place, place]
    blocks: list[bytes] = []

    def keep(samples: int | None, count: int, events: int | None) -> int:
        if samples and count > 0:
            blocks.append(ctypes.string_at(samples, 2 * count))
        return 0  # go on

    kept = ctypes.CFUNCTYPE(ctypes.c_int, place, ctypes.c_int, place)(keep)
    library.espeak_SetSynthCallback(kept)
    for line in lines:
        blocks.clear()
        if library.espeak_SetVoiceByName(line["voice"].encode()):
            raise RuntimeError(f"espeak-ng has no voice {line['voice']!r}")
        library.espeak_SetParameter(_SPEED, line["speed"], 0)
        library.espeak_SetParameter(_PITCH, line["pitch"], 0)
        library.espeak_ng_SetRandSeed(1)  # some voices breathe noise
        data = line["text"].encode() + b"\0"
        if library.espeak_Synth(data, len(data), 0, _CHARACTERS, 0, _UTF8, None, None):
            raise RuntimeError(f"espeak-ng refuses {line['text']!r}")
        library.espeak_Synchronize()
        yield b"".join(blocks)


def main() -> None:
    library = started()
    if sys.argv[1:] == ["speak"]:
        for pcm in speak(library, json.load(sys.stdin)):
            sys.stdout.buffer.write(len(pcm).to_bytes(8, "little") + pcm)
        return
    transcribe = transcriber(library)
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(transcribe(given["voices"], given["texts"])), flush=True)


if __name__ == "__main__":
    main()
