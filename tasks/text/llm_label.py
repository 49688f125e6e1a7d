"""Asks a language model questions with closed answers about each text: topic, register, mood.

The model sits behind any server with OpenAI's `/v1/chat/completions`. Each question becomes a
label, `llm_label_<question>`, that `allowed` may limit. It is asked once about each text that all
other rules keep; an answer outside the question's set is null, and drops nothing. With `audio`, the
model gets the clip, too. A second model may be asked the same: `llm_label_agreement` is the share
of questions that both answer alike.
"""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import lru_cache, partial
from typing import Self

import numpy as np
from pydantic import Field, field_serializer, field_validator, model_validator

from ..audio import write_wav_bytes
from ..base import masking
from ..base.arrays import RATE, Float32s
from ..base.errors import ConfigError, shortened
from ..base.json_types import JsonObject
from ..plugins.annotation_kinds import Label
from ..plugins.contracts.text import Answer, Question, ScoredTranscript
from ..plugins.served import chat, client
from ..plugins.served.client import Body, Client, Failed, Server, Service
from ..settings.transcribe import ChatServer, ChatSettings
from . import WORDS, Allowed, Limit, Rule, StageSettings, Threshold

VERSION = 1  # raise it when other answers are accepted
WHERE = "transcribe.verdicts.llm_label"
CONTROL = "hello there"  # a text that every working model answers
RECORDED = "The recording follows it: judge by what you hear, too."
AGREEMENT = "llm_label_agreement"
COLUMNS = {AGREEMENT: ("1", "share of questions that both models answer alike")}
ENDS = " .!。\n"  # what models append to an answer


class ClosedQuestion(StageSettings):
    """A question, and all that may be answered."""

    ask: str = Field(description="The question.", min_length=1, json_schema_extra=WORDS)
    answers: tuple[str, ...] = Field(description="All answers that count.", json_schema_extra=WORDS)

    @field_validator("answers")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) < 2:
            raise ValueError("needs at least two answers")
        if not all(map(_plain, value)):
            raise ValueError("an answer must have letters")
        if len({*map(_plain, value)}) < len(value):
            raise ValueError("two answers differ in case or punctuation alone")
        return value


class Settings(ChatServer, ChatSettings):
    """The questions, who is asked, and the answers that are kept."""

    questions: dict[str, ClosedQuestion] = Field(
        {},
        description='By name, what is asked: {topic: {ask: "What is it about?", answers: [news, '
        "sport, other]}}.",
        json_schema_extra=WORDS,
    )
    prompt: str = Field(
        "The user sends the transcript of something that was said. Answer the question about it "
        "with one of the answers alone, as it is written.",
        min_length=1,
        description="Instruction that precedes each question.",
        json_schema_extra=WORDS,
    )
    audio: bool = Field(
        False,
        description="Also send the clip, as `input_audio` in WAV, to models that hear. Where `pii` "
        "hides something in the text, nothing is asked then.",
    )
    constrained: bool = Field(
        False,
        description="Have the server allow the answers alone (`response_format`, a JSON schema, as "
        "vLLM, llama.cpp, Ollama and OpenAI take it): small models seldom keep to them else.",
    )
    second: ChatServer | None = Field(
        None, description="Another model that is asked the same: {url: …, model: …}."
    )
    allowed: dict[str, tuple[str, ...]] = Threshold(
        {}, "Answers kept, by question: {topic: [news, sport]}.", mark=WORDS
    )
    min_agreement: float | None = Threshold(
        None, "Least share of questions that both models answer alike; null: any.", ge=0, le=1
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in self.questions:
            if not (name.isascii() and name.isidentifier() and name == name.lower()):
                raise ValueError(f"the question {name!r} must be named in a-z, 0-9 and _")
            if f"llm_label_{name}" in COLUMNS:
                raise ValueError(f"a question must not be called {name!r}")
        for name, kept in self.allowed.items():
            if name not in self.questions:
                raise ValueError(f"allowed names {name!r}, which is no question")
            if odd := [answer for answer in kept if answer not in self.questions[name].answers]:
                raise ValueError(f"allowed: {odd[0]!r} is no answer of {name!r}")
        if self.min_agreement is not None and self.second is None:
            raise ValueError("min_agreement needs a second model")
        if self.second is not None and self.model and self.second.model == self.model:
            raise ValueError("second asks the same model, which would agree with itself")
        return self

    @field_serializer("second")
    def _second(self, second: ChatServer | None) -> JsonObject | None:
        """What can change an answer; the address cannot."""
        return None if second is None else second.recipe()


def check_weights(settings: Settings) -> None:
    if not settings.questions:
        raise ConfigError(
            f'{WHERE}.questions is missing: say what to ask, such as {{topic: {{ask: "What is it '
            'about?", answers: [news, sport, other]}}'
        )
    for server, where in _servers(settings):
        client.check(server, where, "llm_label")
        client.key(server, where)


def _servers(settings: Settings) -> list[tuple[ChatServer, str]]:
    """(server, its place in the settings) of each model."""
    shared = {name: getattr(settings, name) for name in ChatServer.model_fields}
    first = [(ChatServer(**shared), WHERE)]
    return first + ([] if settings.second is None else [(settings.second, f"{WHERE}.second")])


def annotates(settings: Settings) -> dict[str, Label]:
    return {
        f"llm_label_{name}": Label(question.ask, question.answers)
        for name, question in settings.questions.items()
    }


def verdict(settings: Settings) -> tuple[Rule, ...]:
    rules: list[Rule] = [
        Allowed(f"llm_label_{name}", kept, f"wrong_llm_label_{name}")
        for name, kept in settings.allowed.items()
    ]
    if settings.min_agreement is not None:
        rules.append(Limit(AGREEMENT, min=settings.min_agreement, low=f"low_{AGREEMENT}"))
    return tuple(rules)


def questions(settings: Settings) -> tuple[Question, ...]:
    asked = settings.temperature, settings.constrained
    return tuple(
        Question(
            _key(name, number),
            json.dumps([server.model, *asked, _instruction(settings, name)]),
            settings.audio,
        )
        for number, (server, _) in enumerate(_servers(settings))
        for name in settings.questions
    )


def _key(name: str, number: int) -> str:
    """`topic` of the first model, `topic 1` of the second one."""
    return f"{name} {number}" if number else name


def _instruction(settings: Settings, name: str) -> str:
    question = settings.questions[name]
    prompt = f"{settings.prompt} {RECORDED}" if settings.audio else settings.prompt
    return f"{prompt}\n\n{question.ask}\nAnswers: {' | '.join(question.answers)}"


def answer(asked: Sequence[tuple[Question, str]], settings: Settings) -> Iterator[Answer]:
    """Both models are asked at the same time."""
    yield from _answers([(question, text, None) for question, text in asked], settings)


def answer_by_ear(
    asked: Sequence[tuple[Question, str, Float32s]], settings: Settings
) -> Iterator[Answer]:
    yield from _answers([(question, text, wav(clip)) for question, text, clip in asked], settings)


def wav(samples: Float32s) -> bytes:
    """A clip at 16 kHz as the bytes of a WAV file of 16 bits."""
    pcm = np.rint(samples * 32768).clip(-32768, 32767).astype(np.int16)
    return write_wav_bytes(pcm, RATE)


def _answers(
    asked: Sequence[tuple[Question, str, bytes | None]], settings: Settings
) -> Iterator[Answer]:
    of_keys = {
        _key(name, number): (name, number)
        for number in range(len(_servers(settings)))
        for name in settings.questions
    }
    entries = [(*of_keys[question.key], text, clip) for question, text, clip in asked]
    with ExitStack() as stack:
        streams = []
        for number, (server, where) in enumerate(_servers(settings)):
            wanted = [(name, text, clip) for name, of, text, clip in entries if of == number]
            stream = _model(server, where).answers(wanted, settings)
            streams.append(stack.enter_context(closing(stream)))
        for _, number, _, _ in entries:
            yield next(streams[number])


class _Model:
    """A client of one model; kept by a worker process."""

    def __init__(self, settings: ChatServer, where: str) -> None:
        service = Service(where, "language model's server", "texts", ChatServer.PATH, chat.parse)
        self._name, self._where = settings.model, where
        self._client = Client(settings, service, client.key(settings, where))

    def answers(
        self, asked: Sequence[tuple[str, str, bytes | None]], settings: Settings
    ) -> Generator[Answer]:
        """The answers to (name of a question, text, WAV), in order."""
        yield from self._client.each(asked, partial(self._answer, settings))

    def _answer(
        self, settings: Settings, server: Server[str], asked: tuple[str, str, bytes | None]
    ) -> Answer:
        name, text, clip = asked
        instruction = _instruction(settings, name)
        answers = settings.questions[name].answers
        only = answers if settings.constrained else ()
        sent = partial(chat.sent, self._name, settings.temperature, instruction, answers=only)
        hints = [f"{self._where}.model", f"{WHERE}.temperature (some models take none: null)"]
        plain: Body | None = None
        if only:
            hints.insert(0, f"{WHERE}.constrained (not all servers take a schema)")
            plain = sent(CONTROL, answers=())
        if clip is not None:
            hints.insert(0, f"{WHERE}.audio (only models that hear take it)")
            plain = sent(CONTROL)

        def control(large: bool) -> Body:
            """Faint noise in place of the clip; as long as it, if `large`."""
            if clip is None:
                return sent(CONTROL)
            count = len(clip) // 2 if large else RATE
            return sent(CONTROL, wav(np.random.default_rng(0).normal(0, 1e-3, count).astype("f4")))

        try:
            reply = self._client.ask(server, sent(text, clip), control, " or ".join(hints), plain)
        except Failed as fault:
            detail = shortened(masking.sentence(str(fault)))
            return Answer(None, None, "no_answer", detail)
        return judged(chat.chosen(reply) if only else reply, text, answers)


_model = lru_cache(maxsize=4)(_Model)


def judged(reply: str, text: str, answers: Sequence[str]) -> Answer:
    """The one of `answers` that a model gave about `text`."""
    by_form = {_plain(one): one for one in answers}
    value = by_form.get(_plain(chat.bare(reply, text)))
    return Answer(reply, value) if value else Answer(reply, None, "odd_answer", shortened(reply))


def _plain(answer: str) -> str:
    return " ".join(answer.casefold().split()).strip(ENDS)


def measure(heard: ScoredTranscript, settings: Settings) -> Mapping[str, float | str | None]:
    answers = heard.answers
    agreement: float | None = None
    labels = {f"llm_label_{name}": answers.get(name) for name in settings.questions}
    asked = [(name, _key(name, 1)) for name in settings.questions]
    if all(name in answers and second in answers for name, second in asked):  # else not all yet
        pairs = [(answers[name], answers[second]) for name, second in asked]
        answered = [pair for pair in pairs if None not in pair]
        if answered:
            agreement = sum(one == other for one, other in answered) / len(answered)
    return {**labels, AGREEMENT: agreement}
