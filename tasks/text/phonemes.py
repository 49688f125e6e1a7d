"""IPA of each text by espeak-ng, for trainers of voices: the column `phonemes`.

    It's 5 o'clock, Anna!     ɪts fˈaɪv əklˈɑːk, ˈænə!

Stress and punctuation stay, as StyleTTS2 and Kokoro want them. The voice is the one of the clip's
language; of English it is American. Words that it reads in another language are marked in no way.
Chinese comes with numbers for tones, and Japanese only where it is written in kana. A clip has no
phonemes if espeak-ng does not speak its language, or if `pii` hides a word of its text; without
`required`, such a clip stays, and lists have its text.

The library runs in a process of its own, 0.4 ms a sentence. Needs
`pip install 'uttermill[phonemes]'`.
"""

import atexit
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from threading import Lock

from ..base import environment
from ..base.errors import ConfigError
from ..plugins.annotation_kinds import Text
from ..speech import espeak
from . import WORDS, Limit, Rule, ScoredTranscript, StageSettings, Threshold

LIBRARY = "espeakng-loader"
COLUMNS = {"phonemes_unknown": ("1", "1: espeak-ng does not speak the language of the text")}
ANNOTATIONS = {"phonemes": Text("IPA of the text, by espeak-ng")}
REWRITES = True
VOICES = {"en": "en-us"}  # `en` alone would be British
#: Punctuation that stays, with the blanks around it; not what is inside of a number.
_MARKS = re.compile(r"(\s*(?:[;!?¡¿—…\"«»“”„()\[\]{}、。，！？：；]|(?<!\d)[.,:]|[.,:](?!\d))+\s*)")
_SWITCH = re.compile(r"\([a-z][a-z-]*\)")  # (en): espeak-ng reads what follows as English
_STRESS = str.maketrans("", "", "ˈˌ")


class Settings(StageSettings):
    """How the phonemes are written."""

    voices: dict[str, str] = Threshold(
        {},
        "Voice of espeak-ng by language: {en: en-gb}. Default: en-us for English, else the voice "
        "of the language.",
        mark=WORDS,
    )
    stress: bool = Threshold(True, "Whether ˈ and ˌ mark stress.")
    punctuation: bool = Threshold(True, "Whether punctuation stays.")
    required: bool = Threshold(True, "Whether clips without phonemes are dropped.")


def check_weights(settings: Settings) -> None:
    if find_spec("espeakng_loader") is None:
        raise ConfigError("the rule phonemes needs espeak-ng: pip install 'uttermill[phonemes]'")
    for language, voice in settings.voices.items():
        if _child().transcribed((voice,), ["a"]) is None:
            raise ConfigError(
                f"the rule phonemes: espeak-ng has no voice {voice!r} (voices.{language}); name "
                "one by its language, such as en-gb or pt-br"
            )


def identity(settings: Settings) -> str | None:
    """The release of the library."""
    try:
        return f"{LIBRARY} {version(LIBRARY)}"
    except PackageNotFoundError:
        check_weights(settings)
        raise


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("phonemes_unknown", max=0 if settings.required else None, high="no_phonemes"),)


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, object]:
    text, language = heard.text.strip(), heard.language or ""
    if not text:
        return {"phonemes": None, "phonemes_unknown": None}
    voices = _voices(language, settings.voices)
    spoken = _phonemes(text, voices, settings.stress, settings.punctuation) if voices else None
    return {"phonemes": spoken or None, "phonemes_unknown": float(not spoken)}


def _voices(language: str, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """Names of voices to try for a language, the best first."""
    code = language.replace("_", "-").lower()
    base = code.partition("-")[0]
    named = (chosen.get(language), chosen.get(base), code, VOICES.get(base), base)
    wanted = [name for name in named if name]
    if code == base and base in VOICES and base not in chosen:
        wanted.remove(code)
    return tuple(dict.fromkeys(wanted))


@lru_cache(maxsize=1024)
def _phonemes(text: str, voices: tuple[str, ...], stress: bool, punctuation: bool) -> str | None:
    pieces = _MARKS.split(text)  # words and marks by turns
    words = [piece for piece in pieces[::2] if piece.strip()]
    spoken = _child().transcribed(voices, words) if words else []
    if spoken is None:
        return None
    ipa, whole = iter(spoken), ""
    for number, piece in enumerate(pieces):
        if number % 2:
            whole += piece if punctuation else " "
        elif piece.strip():
            whole += " ".join(_SWITCH.sub("", next(ipa)).split())
    whole = " ".join(whole.split())
    return whole if stress else whole.translate(_STRESS)


class Child:
    """The process of `espeak`, started when it is first needed, and again after a crash."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()

    def transcribed(self, voices: Sequence[str], texts: Sequence[str]) -> list[str] | None:
        """IPA of each text; None without a voice, or if espeak-ng crashes on a text."""
        line = json.dumps({"voices": voices, "texts": texts})
        with self._lock:
            answer = self._asked(line) or self._asked(line)
        spoken: list[str] | None = json.loads(answer or "null")
        return spoken

    def _asked(self, line: str) -> str:
        """The answer; empty if the process ended."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                environment.python(espeak.__file__),
                env=environment.of_child(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(line, file=self._process.stdin, flush=True)
            return self._process.stdout.readline()
        except BrokenPipeError:
            return ""

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        with suppress(BrokenPipeError):
            self._process.communicate()  # closes its input, so that it ends
        self._process = None


@cache
def _child() -> Child:
    child = Child()
    atexit.register(child.close)
    return child
