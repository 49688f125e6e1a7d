"""A recogniser behind HTTP: any server with OpenAI's `/v1/audio/transcriptions`.

The name of the model is part of the recipe; the address of the server is not. With this plug-in,
and with no other, audio leaves the machine. A server's answers may change from day to day; texts
that are stored are kept. `tasks.served.asking` says whose fault it is when a clip gets no answer;
the control is a clip of silence.

A waiting worker is not taken for a hanging one as long as `patience` plus one `timeout` stays below
`cluster.item_timeout`, as it does by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tasks import masking
from tasks.asr import SpeechClip, Transcript, _openai_answer, _pieces
from tasks.asr._openai_settings import WHERE, Settings, key, weights
from tasks.served.asking import Client, Failed
from tasks.served.http import Body, Server, Service
from tasks.speech_rate import RATE

__all__ = ["VERSION", "Backend", "Settings", "weights"]

VERSION = 2  # constants that stand for scores are null
SHORTEST = RATE // 10  # samples; OpenAI refuses shorter clips, so they are padded with silence
SERVICE = Service(WHERE, "transcription server", "clips", Settings.PATH, _openai_answer.parse)
HINT = f"{WHERE}.model, .language, .prompt and .response_format (some models know json only)"


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        weights(settings)
        self._settings = settings
        self._client = Client(settings, SERVICE, key(settings))

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript per clip, in order; up to `parallel` requests at once."""
        return self._client.each(clips, self._hear)

    def _hear(self, server: Server, clip: SpeechClip) -> Transcript:
        language = clip.language or self._settings.language
        if refused := _pieces.fault(clip):
            return Transcript("", error=refused)
        if not len(clip.samples):
            return Transcript("", language, no_speech_probability=1.0)
        silence = partial(self._silence, len(clip.samples))
        try:
            answer = self._client.ask(server, self._sent(clip.samples, language), silence, HINT)
        except Failed as fault:
            return Transcript("", error=masking.sentence(str(fault))[:500])
        seconds = len(clip.samples) / RATE
        return _openai_answer.transcript(answer, language, self._settings.word_timestamps, seconds)

    def _silence(self, samples: int, as_large: bool) -> Body:
        """A clip that any server hears, of a second at least."""
        silence = np.zeros(max(samples if as_large else 0, RATE), np.float32)
        return self._sent(silence, self._settings.language)

    def _sent(self, samples: NDArray[np.float32], language: str | None) -> Body:
        """The form that is sent with the audio."""
        settings = self._settings
        prompt = settings.prompt
        if isinstance(prompt, dict):
            prompt = prompt.get(language or "")
        fields: dict[str, str | list[str] | None] = {
            "model": settings.model,
            "response_format": settings.response_format,
            "temperature": f"{settings.temperature:g}",
            "language": language,
            "prompt": prompt,
            # Without `segment`, a server that is asked for words leaves the scores out.
            "timestamp_granularities[]": ["word", "segment"] if settings.word_timestamps else None,
            "include[]": ["logprobs"] if settings.token_logprobs else None,
        }
        return {
            "data": {name: value for name, value in fields.items() if value},
            "files": {"file": ("clip.wav", wav(samples), "audio/wav")},
        }


def wav(samples: NDArray[np.float32]) -> bytes:
    """The clip as a 16-bit WAV file; samples that were int16 / 32768 are restored exactly."""
    from tasks.audio import write_wav_bytes

    padded = np.pad(samples, (0, max(SHORTEST - len(samples), 0)))
    return write_wav_bytes(np.clip(np.rint(padded * 32768.0), -32768, 32767).astype(np.int16), RATE)
