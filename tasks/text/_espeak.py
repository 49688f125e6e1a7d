"""espeak-ng's phonemes in a child process: JSON lines on stdin and stdout.

    in    {"voices": ["en-us", "en"], "texts": ["hello", …]}     voices: the first that it has
    out   ["həlˈoʊ", …], or null if it has none of the voices

A separate process, because the library is GPL-3 and must not be linked into uttermill, and because
its crash must not end a worker.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: no audio device
_UTF8, _IPA = 1, 2  # espeakCHARS_UTF8, espeakPHONEMES_IPA


class _Voice(ctypes.Structure):
    """espeak_VOICE; by `languages` alone, espeak-ng takes its best voice of a language."""

    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("name", "languages", "identifier")),
        *((name, ctypes.c_ubyte) for name in ("gender", "age", "variant", "unused")),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    )


def transcriber() -> Callable[[Sequence[str], Sequence[str]], list[str] | None]:
    """A function (voices, texts) -> IPA of each text, one clause a line; None without a voice."""
    import espeakng_loader

    path = Path(espeakng_loader.get_library_path())
    library = ctypes.CDLL(str(path))
    # Its buffer for the path of its data holds 160 characters; some paths are longer.
    os.chdir(path.parent)
    number, text = ctypes.c_int, ctypes.c_char_p
    library.espeak_Initialize.argtypes = [number, number, text, number]
    if library.espeak_Initialize(_SYNCHRONOUS, 0, b".", 0) <= 0:
        raise RuntimeError("espeak-ng does not start; its data are damaged")
    library.espeak_SetVoiceByName.argtypes = [text]
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


def main() -> None:
    transcribe = transcriber()
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(transcribe(given["voices"], given["texts"])), flush=True)


if __name__ == "__main__":
    main()
