"""A recogniser behind HTTP: any server with OpenAI's `/v1/audio/transcriptions`.

The name of the model is part of the recipe; the address of the server is not. With this plug-in,
and with no other, audio leaves the machine. A server's answers may change from day to day; texts
that are stored are kept.

A clip that the server refuses (400, 413, 422) fails alone. When a clip is refused before any was
transcribed, and when all tries for a clip have failed, a clip of silence is sent as a control. If
it is answered, the clip is at fault; if not, the server or the settings are, and the run stops and
keeps what it has. So an outage does not quarantine a corpus, and one clip that crashes a server
does not block it for ever.

A waiting worker is not taken for a hanging one as long as `patience` plus one `timeout` stays below
`cluster.item_timeout`, as it does by default.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tasks import masking
from tasks.asr import SpeechClip, Transcript, _openai_answer
from tasks.asr._openai_http import Fields, Refused, Server, Unanswered
from tasks.asr._openai_pace import Pace
from tasks.asr._openai_settings import Settings, key, weights
from tasks.errors import ConfigError, RunError

__all__ = ["VERSION", "Backend", "Settings", "weights"]

VERSION = 2  # constants that stand for scores are null
RATE = 16000
SHORTEST = RATE // 10  # samples; OpenAI refuses shorter clips, so they are padded with silence


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        import ssl

        import httpx

        weights(settings)
        self._settings = settings
        self._key = key(settings)
        if self._key == masking.HIDDEN:
            raise ConfigError(
                "transcribe.backend.api_key was hidden when these settings were written: give it "
                "again, or name a variable in transcribe.backend.api_key_env"
            )
        try:
            own = settings.ca_file and ssl.create_default_context(cafile=settings.ca_file)
            self._tls = own or httpx.create_ssl_context()
        except OSError as error:
            raise ConfigError(
                f"transcribe.backend.ca_file {settings.ca_file!r} cannot be used: {error}"
            ) from error
        self._pace = Pace(settings.parallel)
        self._proven = False  # the server has answered a clip with these settings

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript per clip, in order; up to `parallel` requests at once."""
        import httpx

        settings, stop = self._settings, threading.Event()
        headers = {"Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        limits = httpx.Limits(max_connections=settings.parallel)
        # One client per call: its connections last as long as these clips are in memory.
        with (
            httpx.Client(headers=headers, verify=self._tls, limits=limits) as http,
            ThreadPoolExecutor(settings.parallel, "openai-api") as pool,
        ):
            server = Server(
                http=http,
                url=settings.url or "",
                model=settings.model or "",
                key=self._key,
                timeout=settings.timeout,
                retries=settings.retries,
                backoff=settings.backoff,
                patience=settings.patience,
                stop=stop,
                pace=self._pace,
            )
            waiting = [pool.submit(self._hear, server, clip) for clip in clips]
            try:
                for heard in waiting:
                    yield heard.result()
            finally:
                stop.set()
                for rest in waiting:
                    rest.cancel()

    def _hear(self, server: Server, clip: SpeechClip) -> Transcript:
        language = clip.language or self._settings.language
        if not np.isfinite(clip.samples).all():
            return Transcript("", error="samples are NaN or infinite")
        if not len(clip.samples):
            return Transcript("", language, no_speech_probability=1.0)
        try:
            answer = server.ask(wav(clip.samples), self._fields(language))
        except Refused as fault:
            if not self._proven:
                self._control(server, RATE, str(fault))
            return _failed(fault)
        except Unanswered as fault:
            if fault.busy:
                raise RunError(_down(server, str(fault))) from None
            self._control(server, len(clip.samples), str(fault))
            return _failed(fault)
        self._proven = True
        seconds = len(clip.samples) / RATE
        return _openai_answer.transcript(answer, language, self._settings.word_timestamps, seconds)

    def _control(self, server: Server, samples: int, fault: str) -> None:
        """Send silence, once. RunError unless the server answers."""
        silence = np.zeros(max(samples, RATE), np.float32)
        try:
            server.ask(wav(silence), self._fields(self._settings.language), retries=0)
        except Refused:
            raise RunError(
                f"the transcription server {server.url} takes no clip with these settings: {fault}"
                "; check transcribe.backend.model, .language, .prompt and .response_format (some "
                "models know json only)"
            ) from None
        except Unanswered:
            raise RunError(_down(server, fault)) from None
        self._proven = True

    def _fields(self, language: str | None) -> Fields:
        """The form fields sent with the audio."""
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
        return {name: value for name, value in fields.items() if value}


def wav(samples: NDArray[np.float32]) -> bytes:
    """The clip as a 16-bit WAV file; samples that were int16 / 32768 are restored exactly."""
    from tasks.audio import write_wav_bytes

    padded = np.pad(samples, (0, max(SHORTEST - len(samples), 0)))
    return write_wav_bytes(np.clip(np.rint(padded * 32768.0), -32768, 32767).astype(np.int16), RATE)


def _down(server: Server, fault: str) -> str:
    return (
        f"the transcription server {server.url} cannot be used now: {fault}; what it has heard is "
        "kept, run it again to go on (transcribe.backend.timeout, .retries and .parallel say how "
        "long and how hard it is asked)"
    )


def _failed(fault: Exception) -> Transcript:
    return Transcript("", error=masking.sentence(f"the transcription server: {fault}")[:500])
