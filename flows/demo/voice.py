"""espeak-ng as a child process: JSON on stdin, PCM on stdout; started by `corpus.py`.

    in    [{"text": …, "voice": "en-us+f2", "speed": 150, "pitch": 50}, …]   speed in words a minute
    out   for each: length in bytes (uint64, little-endian), then int16 mono at 22050 Hz

A separate process, because the library is GPL-3 and must not be linked into uttermill, because its
crash must not end the run, and so that it keeps no state from earlier utterances.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

RATE = 22050
_SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: samples go to the callback, no audio device
_SPEED, _PITCH = 1, 3  # espeak_PARAMETER
_UTF8, _CHARACTERS = 1, 1  # espeakCHARS_UTF8, POS_CHARACTER


def speaker() -> Callable[[str, str, int, int], bytes]:
    import espeakng_loader

    path = Path(espeakng_loader.get_library_path())
    library = ctypes.CDLL(str(path))
    # Its buffer for the path of its data holds 160 characters; some paths are longer.
    os.chdir(path.parent)
    number, text = ctypes.c_int, ctypes.c_char_p
    library.espeak_Initialize.argtypes = [number, number, text, number]
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, b".", 0)
    if rate != RATE:
        raise RuntimeError(f"espeak-ng gave {rate} instead of {RATE} Hz; its data are damaged")
    library.espeak_ng_SetRandSeed.argtypes = [ctypes.c_long]
    library.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p,  # text
        ctypes.c_size_t,  # its size in bytes
        ctypes.c_uint,  # position
        ctypes.c_int,  # kind of position
        ctypes.c_uint,  # end position
        ctypes.c_uint,  # flags
        ctypes.c_void_p,  # where to put an identifier
        ctypes.c_void_p,  # data for the callback
    ]
    blocks: list[bytes] = []

    def keep(samples: int | None, count: int, events: int | None) -> int:
        if samples and count > 0:
            blocks.append(ctypes.string_at(samples, 2 * count))
        return 0  # go on

    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    callback = signature(keep)
    library.espeak_SetSynthCallback(callback)

    def say(text: str, voice: str, speed: int, pitch: int) -> bytes:
        # Referenced here, or it would be freed while the library still calls it.
        assert callback is not None
        blocks.clear()
        if library.espeak_SetVoiceByName(voice.encode()):
            raise RuntimeError(f"espeak-ng has no voice {voice!r}")
        library.espeak_SetParameter(_SPEED, speed, 0)
        library.espeak_SetParameter(_PITCH, pitch, 0)
        library.espeak_ng_SetRandSeed(1)  # some voices breathe noise
        data = text.encode() + b"\0"
        if library.espeak_Synth(data, len(data), 0, _CHARACTERS, 0, _UTF8, None, None):
            raise RuntimeError(f"espeak-ng refuses {text!r}")
        library.espeak_Synchronize()
        return b"".join(blocks)

    return say


def main() -> None:
    say = speaker()
    for line in json.load(sys.stdin):
        pcm = say(line["text"], line["voice"], line["speed"], line["pitch"])
        sys.stdout.buffer.write(len(pcm).to_bytes(8, "little") + pcm)


if __name__ == "__main__":
    main()
