"""Texts beside the recordings of a folder: each kind, its encoding, and which text is whose."""

import json
from pathlib import Path
from typing import Any

import pytest

from uttermill.tasks.base.errors import ConfigError, ItemError
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Ignored, Recording, Segment, TimedWord
from uttermill.tasks.settings import Source
from uttermill.tasks.sources._beside.cues import MOST
from uttermill.tasks.sources._text_encoding import decode

RUSSIAN, CHINESE = "Привет, мир", "今天天气很好"


def put(path: Path, data: bytes | str | dict[str, Any] = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(data) if isinstance(data, dict) else data
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def listed(path: Path, **options: Any) -> list[Recording | Ignored]:
    module, settings = resolve_source(Source(kind="folder", path=str(path), **options))
    return list(module.recordings(settings))


def recordings(items: list[Recording | Ignored]) -> list[Recording]:
    return [item for item in items if isinstance(item, Recording)]


def reasons(items: list[Recording | Ignored]) -> dict[str, str]:
    return {item.path: item.reason for item in items if isinstance(item, Ignored)}


def details(items: list[Recording | Ignored]) -> dict[str, str]:
    return {item.path: item.detail for item in items if isinstance(item, Ignored)}


def one(folder: Path, name: str, data: bytes | str | dict[str, Any], **options: Any) -> Recording:
    """The recording beside which a text lies."""
    put(folder / f"{name.partition('.')[0]}.wav")
    put(folder / name, data)
    [found] = recordings(listed(folder, **options))
    return found


TEXTS = Path(__file__).parent / "texts"
SRT, VTT, ASS, LONG, MFA, EAF = (
    (TEXTS / name).read_text("utf-8")
    for name in ("a.srt", "a.vtt", "a.ass", "long.TextGrid", "words.TextGrid", "a.eaf")
)
CTM = ";; made by hand\na 1 0.50 0.25 one 0.9\na 1 1.00 0.50 two 0.8\n"
STM = (
    ";; made by hand\n"
    "a 1 anna 0.5 2.0 <o,f0,female> one two\n"
    "a 1 bob 2.0 3.0 IGNORE_TIME_SEGMENT_IN_SCORING\n"
)
ONE_TWO = (TimedWord("one", 0.5, 0.75), TimedWord("two", 1.0, 1.5))


@pytest.mark.parametrize(
    ("name", "text", "segments"),
    [
        ("a.srt", SRT, [Segment(0.5, 2.0, None, "One and two.", "ANNA"),
                        Segment(2.0, 3.25, None, "Three. Four.")]),
        ("a.vtt", VTT, [Segment(0.5, 2.0, None, "One & two.", "Anna"),
                        Segment(3602.0, 3603.25, None, "Three.")]),
        ("a.ass", ASS, [Segment(0.5, 2.0, None, "One, two and three.", "Anna")]),
        ("a.TextGrid", LONG, [Segment(0.5, 2.0, None, 'say "one" now')]),
        ("a.TextGrid", MFA, [Segment(0.0, None, None, "one two", None, None,
                                     (TimedWord("one", 0.5, 1.0), TimedWord("two", 1.0, 2.0)))]),
        ("a.eaf", EAF, [Segment(0.5, 2.0, None, "Grüße & so", "Anna")]),
        ("a.ctm", CTM, [Segment(0.0, None, None, "one two", None, None, ONE_TWO)]),
        ("a.stm", STM, [Segment(0.5, 2.0, None, "one two", "anna")]),
        ("a.txt", "0.500000\t2.000000\tone\n2.0\t3.0\ttwo\n",
         [Segment(0.5, 2.0, None, "one"), Segment(2.0, 3.0, None, "two")]),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)  # fmt: skip
def test_texts_with_times(tmp_path: Path, name: str, text: str, segments: list[Segment]) -> None:
    found = one(tmp_path, name, text)
    assert (found.error, found.text, found.segments) == (None, None, tuple(segments))


WORDS = [{"word": " one", "start": 0.5, "end": 0.75, "score": 0.9}, {"word": "2"},
         {"word": "two.", "start": 1.25, "end": 1.5}]  # fmt: skip
HEARD = (TimedWord("one", 0.5, 0.75), TimedWord("2", 0.75, 1.25), TimedWord("two.", 1.25, 1.5))
AWS_ITEM = {
    "type": "pronunciation",
    "start_time": "0.5",
    "end_time": "0.75",
    "alternatives": [{"content": "one", "confidence": "0.9"}],
    "speaker_label": "spk_0",
}
AWS_MARK = {"type": "punctuation", "alternatives": [{"content": "."}]}


def spans(*words: TimedWord, text: str, speaker: str | None, whole: bool = False) -> list[Segment]:
    start, end = (0.0, None) if whole else (0.5, 1.5)
    return [Segment(start, end, None, text, speaker, None, words or None)]


@pytest.mark.parametrize(
    ("value", "segments"),
    [
        ({"text": " one two.", "language": "en",
          "segments": [{"id": 0, "seek": 0, "start": 0.5, "end": 1.5, "text": " one two."}]},
         spans(text="one two.", speaker=None)),
        ({"segments": [{"start": 0.5, "end": 1.5, "text": " one 2 two.", "words": WORDS,
                        "speaker": "SPEAKER_00"}], "word_segments": WORDS},
         spans(*HEARD, text="one 2 two.", speaker="SPEAKER_00")),
        ({"text": "one 2 two.", "language": "english", "words": WORDS},
         spans(*HEARD, text="one 2 two.", speaker=None, whole=True)),
        ({"result": {"language": "en"}, "transcription": [
            {"timestamps": {}, "offsets": {"from": 500, "to": 1500}, "text": " one two."}]},
         spans(text="one two.", speaker=None)),
        ({"jobName": "x", "status": "COMPLETED", "results": {
            "transcripts": [{"transcript": "one."}], "items": [AWS_ITEM, AWS_MARK]}},
         [Segment(0.5, 0.75, None, "one.", "spk_0", None, (TimedWord("one.", 0.5, 0.75),))]),
        ({"results": {"items": [{**AWS_ITEM, "id": 0}, {**AWS_MARK, "id": 1}], "audio_segments": [
            {"start_time": "0.5", "end_time": "1.5", "transcript": "one.", "items": [0, 1],
             "speaker_label": "spk_0"}]}},
         spans(TimedWord("one.", 0.5, 0.75), text="one.", speaker="spk_0")),
        ({"results": [
            {"alternatives": [{"transcript": "one two", "confidence": 0.9, "words": [
                {"startTime": "0.500s", "endTime": "0.750s", "word": "one"},
                {"startTime": "1.250s", "endTime": "1.500s", "word": "two"}]}],
             "resultEndTime": "2.100s", "languageCode": "en-us"}]},
         spans(TimedWord("one", 0.5, 0.75), TimedWord("two", 1.25, 1.5), text="one two",
               speaker=None)),
        ({"response": {"results": [{"alternatives": [{"transcript": "one"}],
                                    "resultEndOffset": "1.5s"}]}},
         [Segment(0.0, 1.5, None, "one")]),
        ({"metadata": {}, "results": {"channels": [{"alternatives": [
            {"transcript": "one 2 two", "words": [
                {"word": "one", "start": 0.5, "end": 0.75, "punctuated_word": "One"},
                {"word": "two", "start": 1.25, "end": 1.5, "punctuated_word": "two."}]}]}],
            "utterances": [{"start": 0.5, "end": 1.5, "transcript": "One two.", "speaker": 0,
                            "words": []}]}},
         spans(text="One two.", speaker="0")),
        ({"metadata": {}, "results": {"channels": [{"alternatives": [
            {"transcript": "One two.", "words": [
                {"word": "one", "start": 0.5, "end": 0.75, "punctuated_word": "One"}]}]}]}},
         spans(TimedWord("One", 0.5, 0.75), text="One two.", speaker=None, whole=True)),
        ({"id": "x", "status": "completed", "audio_url": "y", "text": "One.", "words": [],
          "utterances": [{"start": 500, "end": 1500, "text": "One.", "speaker": "A", "words": [
              {"text": "One.", "start": 500, "end": 750, "speaker": "A"}]}]},
         spans(TimedWord("One.", 0.5, 0.75), text="One.", speaker="A")),
        ({"id": "x", "status": "completed", "text": "One.", "utterances": [], "words": [
              {"text": "One.", "start": 500, "end": 750}]},
         spans(TimedWord("One.", 0.5, 0.75), text="One.", speaker=None, whole=True)),
        ([{"start": 0.5, "end": 1.5, "text": "one two."}], spans(text="one two.", speaker=None)),
        ({"text": "one. two.", "chunks": [{"timestamp": [0.5, 1.5], "text": " one."},
                                          {"timestamp": [1.5, None], "text": " two."}]},
         [Segment(0.5, 1.5, None, "one."), Segment(1.5, None, None, "two.")]),
        ({"combinedRecognizedPhrases": [], "recognizedPhrases": [
            {"recognitionStatus": "Success", "channel": 0, "speaker": 1, "offset": "PT0.5S",
             "offsetInTicks": 5000000.0, "durationInTicks": 10000000.0, "nBest": [
                 {"lexical": "one two", "display": "One two.", "words": [
                     {"word": "one", "offsetInTicks": 5000000.0, "durationInTicks": 2500000.0},
                     {"word": "two", "offsetInTicks": 12500000.0, "durationInTicks": 2500000.0}]}
             ]}]},
         spans(TimedWord("one", 0.5, 0.75), TimedWord("two", 1.25, 1.5), text="One two.",
               speaker="1")),
        ({"combinedPhrases": [{"text": "One."}], "phrases": [
            {"offsetMilliseconds": 500, "durationMilliseconds": 1000, "text": "One.", "words": [
                {"text": "One.", "offsetMilliseconds": 500, "durationMilliseconds": 250}]}]},
         spans(TimedWord("One.", 0.5, 0.75), text="One.", speaker=None)),
        ({"format": "2.9", "results": [
            *({"type": "word", "start_time": start, "end_time": start + 0.25, "alternatives": [
                {"content": word, "speaker": who}]}
              for word, start, who in (("One", 0.5, "S1"), ("two", 1.0, "S2"))),
            {"type": "punctuation", "attaches_to": "previous", "start_time": 1.25,
             "end_time": 1.25, "alternatives": [{"content": ".", "speaker": "S2"}]}]},
         [Segment(0.5, 0.75, None, "One", "S1", None, (TimedWord("One", 0.5, 0.75),)),
          Segment(1.0, 1.25, None, "two.", "S2", None, (TimedWord("two.", 1.0, 1.25),))]),
        ({"monologues": [{"speaker": 0, "elements": [
            {"type": "text", "value": "One", "ts": 0.5, "end_ts": 0.75},
            {"type": "punct", "value": ", "},
            {"type": "text", "value": "two", "ts": 1.25, "end_ts": 1.5},
            {"type": "punct", "value": "."}]}]},
         spans(TimedWord("One,", 0.5, 0.75), TimedWord("two.", 1.25, 1.5), text="One, two.",
               speaker="0")),
        ({"language_code": "eng", "text": "One two.", "words": [
            {"text": "One", "start": 0.5, "end": 0.75, "type": "word", "speaker_id": "a"},
            {"text": " ", "start": 0.75, "end": 1.25, "type": "spacing", "speaker_id": "a"},
            {"text": "two.", "start": 1.25, "end": 1.5, "type": "word", "speaker_id": "a"}]},
         spans(TimedWord("One", 0.5, 0.75), TimedWord("two.", 1.25, 1.5), text="One two.",
               speaker="a", whole=True)),
        ({"result": {"transcription": {"utterances": [{"start": 0.5, "end": 1.5, "text": "One.",
                                                       "speaker": 2, "words": []}]}}},
         spans(text="One.", speaker="2")),
        ({"result": [{"conf": 1, "start": 0.5, "end": 0.75, "word": "one"}], "text": "one"},
         spans(TimedWord("one", 0.5, 0.75), text="one", speaker=None, whole=True)),
        ({"fragments": [{"begin": "0.500", "end": "1.500", "lines": ["One", "two."]}]},
         spans(text="One two.", speaker=None)),
        ({"version": "1.0.0", "segments": [
            {"speaker": "Anna", "startTime": 0.5, "endTime": 1.5, "body": "One."}]},
         spans(text="One.", speaker="Anna")),
    ],
    ids=["whisper", "whisperx", "openai", "whisper.cpp", "aws", "aws segments", "google",
         "google v2", "deepgram utterances", "deepgram", "assemblyai utterances", "assemblyai",
         "faster-whisper", "transformers", "azure", "azure fast", "speechmatics", "rev.ai",
         "elevenlabs", "gladia", "vosk", "aeneas", "podcast"],
)  # fmt: skip
def test_transcripts_in_json(tmp_path: Path, value: object, segments: list[Segment]) -> None:
    found = one(tmp_path, "a.json", json.dumps(value))
    assert (found.error, found.segments) == (None, tuple(segments))


def _deepgram_words(*speakers: int) -> dict[str, Any]:
    words = [
        {"word": word, "start": start, "end": start + 0.25, "speaker": speaker}
        for word, start, speaker in zip(("one", "two"), (0.5, 1.0), speakers, strict=True)
    ]
    return {
        "results": {"channels": [{"alternatives": [{"transcript": "one two", "words": words}]}]}
    }


def _google_words(name: str, first: object, second: object) -> list[dict[str, Any]]:
    times = {"startTime": "0.500s", "endTime": "0.750s"}, {"startTime": "1s", "endTime": "1.250s"}
    return [
        {"word": "one", **times[0], name: first} if first else {"word": "one", **times[0]},
        {"word": "two", **times[1], name: second} if second else {"word": "two", **times[1]},
    ]


AWS_APART = {"results": {
    "items": [{k: v for k, v in {**AWS_ITEM, **more}.items() if k != "speaker_label"} for more in (
        {}, {"start_time": "1.0", "end_time": "1.25", "alternatives": [{"content": "two"}]})],
    "speaker_labels": {"segments": [
        {"speaker_label": "a", "items": [{"start_time": "0.5", "speaker_label": "a"}]},
        {"speaker_label": "b", "items": [{"start_time": "1.0", "speaker_label": "b"}]}
    ]},
}}  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        AWS_APART,
        _deepgram_words(0, 1),
        {"results": [
            {"alternatives": [{"transcript": "one two", "words": _google_words("x", 0, 0)}]},
            {"alternatives": [{"words": _google_words("speakerTag", 1, 2)}]}]},
        {"results": [
            {"alternatives": [{"transcript": "one two", "words": _google_words(
                "speakerLabel", "A", "B")}]}]},
    ],
    ids=["aws", "deepgram", "google", "google v2"],
)  # fmt: skip
def test_speakers_that_only_the_words_name_part_the_segments(
    tmp_path: Path, value: dict[str, Any]
) -> None:
    segments = one(tmp_path, "a.json", value).segments or ()
    assert [(s.start, s.end, s.text) for s in segments] == [(0.5, 0.75, "one"), (1.0, 1.25, "two")]
    assert len({s.speaker for s in segments} - {None}) == 2


def test_one_speaker_of_all_words_is_the_speaker(tmp_path: Path) -> None:
    segments = one(tmp_path, "a.json", _deepgram_words(3, 3)).segments or ()
    assert [(s.start, s.end, s.text, s.speaker) for s in segments] == [(0.0, None, "one two", "3")]


SAID = "hello", "yes"
SILENT_FIRST: dict[str, Any] = {"results": {"channels": [
    {"alternatives": [{"transcript": "", "words": []}]},
    *({"alternatives": [{"transcript": word, "words": [{"word": word, "start": 1, "end": 2}]}]}
      for word in SAID)]}}  # fmt: skip
CHANNELS: list[dict[str, Any]] = [
    {"results": {"channels": [
        {"alternatives": [{"transcript": word, "words": [{"word": word, "start": 1, "end": 2}]}]}
        for word in SAID]}},
    SILENT_FIRST,
    {"results": {"items": [
        {"type": "pronunciation", "start_time": "1", "end_time": "2", "channel_label": f"ch_{n}",
         "alternatives": [{"content": word}]} for n, word in enumerate(SAID)]}},
    {"results": [
        {"channelTag": n, "alternatives": [{"transcript": word, "words": [
            {"word": word, "startTime": "1s", "endTime": "2s"}]}]}
        for n, word in enumerate(SAID, 1)]},
    {"recognizedPhrases": [
        {"channel": n, "offsetInTicks": 1e7, "durationInTicks": 1e7, "nBest": [{"display": word}]}
        for n, word in enumerate(SAID)]},
    {"audio_url": "x", "text": "hello yes", "utterances": [
        {"channel": str(n), "start": 1000, "end": 2000, "text": word}
        for n, word in enumerate(SAID, 1)]},
]  # fmt: skip


@pytest.mark.parametrize(
    "value", CHANNELS, ids=["deepgram", "silent", "aws", "google", "azure", "assemblyai"]
)
def test_a_channel_that_a_service_names_is_that_of_its_words(
    tmp_path: Path, value: dict[str, Any]
) -> None:
    segments = one(tmp_path, "a.json", value).segments or ()
    first = 1 if value is SILENT_FIRST else 0
    channels = [("hello", (first,)), ("yes", (first + 1,))]
    assert [(segment.text, segment.channels) for segment in segments] == channels


@pytest.mark.parametrize("value", ['{"title": "x", "views": 3}', '{"segments": ["a"]}', "[1]"])
def test_other_json_is_no_transcript(tmp_path: Path, value: str) -> None:
    put(tmp_path / "a.wav")
    put(tmp_path / "a.json", value)
    found = listed(tmp_path)
    assert [(r.text, r.segments, r.error) for r in recordings(found)] == [(None, None, None)]
    assert reasons(found) == {"a.json": "no_transcript"}


@pytest.mark.parametrize(
    ("name", "text", "said", "speaker"),
    [
        ("a.txt", "One\r\n two.\n", "One two.", None),
        ("a.TXT", "One.", "One.", None),
        ("a.lab", "one", "one", None),
        ("a.normalized.txt", "one", "one", None),
        ("a.txt", "ANNA: One.\nANNA: Two.", "One. Two.", "ANNA"),
        ("a.txt", "[inaudible]", "[inaudible]", None),  # a rule drops it later
        ("a.txt", " \n", None, None),
    ],
)
def test_texts_without_times(
    tmp_path: Path, name: str, text: str, said: str | None, speaker: str | None
) -> None:
    found = one(tmp_path, name, text)
    assert (found.error, found.text, found.speaker, found.segments) == (None, said, speaker, None)


# encodings


@pytest.mark.parametrize(
    ("text", "encoding", "told", "named"),
    [
        (RUSSIAN, "utf-8", None, "utf-8"),
        (RUSSIAN, "utf-8-sig", None, "utf-8-sig"),
        (RUSSIAN, "utf-16", None, "utf-16"),
        ("hello\n", "utf-16-be", None, "utf-16-be"),
        ("hello\n", "utf-16-le", None, "utf-16-le"),
        (RUSSIAN, "cp1251", "cp1251", "cp1251"),
        (CHINESE, "gbk", "gbk", "gbk"),
        ("olé", "latin-1", "latin-1", "iso8859-1"),
        (RUSSIAN, "utf-8-sig", "cp1251", "utf-8-sig"),  # a mark is certain
    ],
)
def test_encodings(tmp_path: Path, text: str, encoding: str, told: str, named: str) -> None:
    put(tmp_path / "a.wav")
    put(tmp_path / "a.txt", text.encode(encoding))
    found = listed(tmp_path, **({"encoding": told} if told else {}))
    assert [r.text for r in recordings(found)] == [text.strip()]
    assert details(found) == {"a.txt": f"txt in {named}"}


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [(RUSSIAN, "cp1251", f"cp1251 ({RUSSIAN!r})"), (CHINESE, "gbk", f"gb18030 ({CHINESE!r})"),
     ("olé", "latin-1", "cp1252 ('olé')")],
)  # fmt: skip
def test_an_encoding_that_is_not_certain_is_asked_for(
    tmp_path: Path, text: str, encoding: str, shown: str
) -> None:
    found = one(tmp_path, "a.txt", text.encode(encoding))
    assert found.error
    assert found.error[0] == "bad_text"
    assert shown in found.error[1]
    assert "set the source's `encoding`" in found.error[1]
    assert (found.text, found.guard) == (None, "")


def test_bytes_that_do_not_fit_what_is_asked_for() -> None:
    with pytest.raises(ItemError, match="byte 12 does not fit gb"):
        decode(CHINESE.encode("gbk") + b"\xff", "gbk")
    with pytest.raises(ItemError, match="NUL bytes"):
        decode(b"ab\0\0\1\2")


@pytest.mark.parametrize("name", ["nope", "rot13", "hex"])
def test_what_is_no_encoding_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"encoding.*'{name}'"):
        listed(tmp_path, encoding=name)


# which text is whose


def test_pairs_in_folders_with_reasons(tmp_path: Path) -> None:
    for name in ("x/a.wav", "x/a.mp3", "x/b.wav", "y/a.wav", "y/z.b.flac", "top.wav"):
        put(tmp_path / name)
    for name in ("x/a.txt", "x/c.txt", "y/a.normalized.txt", "y/a.txt", "y/z.b.txt", "y/z.txt"):
        put(tmp_path / name, f"text of {name}")
    put(tmp_path / "notes.txt", "nothing")
    put(tmp_path / "x/a.cue", "x")
    found = listed(tmp_path)
    assert {r.path: r.text for r in recordings(found)} == {
        "top.wav": None, "x/a.mp3": "text of x/a.txt", "x/a.wav": "text of x/a.txt",
        "x/b.wav": None, "y/a.wav": "text of y/a.normalized.txt", "y/z.b.flac": "text of y/z.b.txt",
    }  # fmt: skip
    assert reasons(found) == {
        "notes.txt": "extension", "x/a.cue": "extension",
        "x/a.txt": "read_as_text", "x/c.txt": "text_without_audio",
        "y/a.normalized.txt": "read_as_text", "y/a.txt": "second_text",
        "y/z.b.txt": "read_as_text", "y/z.txt": "text_without_audio",
    }  # fmt: skip
    assert details(found)["y/a.txt"] == "a.normalized.txt is read"
    assert details(found)["x/a.txt"] == "txt in utf-8"
    order = [item.path for item in found]
    assert order == sorted(order)


def test_a_text_with_times_comes_before_one_without(tmp_path: Path) -> None:
    put(tmp_path / "a.srt", SRT)
    put(tmp_path / "a.json", {"text": "x", "segments": []})
    found = one(tmp_path, "a.txt", "plain")
    assert (found.text, len(found.segments or ())) == (None, 2)


def test_texts_as_the_settings_say(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        put(tmp_path / name)
    put(tmp_path / "a.srt", SRT)
    put(tmp_path / "a.txt", "plain")
    put(tmp_path / "a.en.srt", SRT.replace("Three", "English"))
    none = listed(tmp_path, texts="none")
    assert {(r.text, r.segments) for r in recordings(none)} == {(None, None)}
    assert {*reasons(none).values()} == {"extension"}
    plain = listed(tmp_path, texts={"ext": "txt"})
    assert [r.text for r in recordings(plain)] == ["plain", None]
    assert reasons(plain)["a.srt"] == "extension"
    put(tmp_path / "far/c.mp4")
    put(tmp_path / "far/c.de.vtt", VTT)
    near = details(listed(tmp_path))
    assert near["a.en.srt"] == "a.srt is read"
    assert near["far/c.de.vtt"] == "vtt in utf-8: 2 segments"
    english = recordings(listed(tmp_path, texts={"ext": ".en.srt"}))
    assert [segment.text for segment in english[0].segments or ()][1] == "English. Four."
    with pytest.raises(ConfigError, match=r"texts.*'mp3' is not an extension of texts"):
        listed(tmp_path, texts={"ext": "mp3"})
    with pytest.raises(ConfigError, match="texts"):
        listed(tmp_path, texts="all")


def test_a_tier_by_name(tmp_path: Path) -> None:
    both = (
        LONG.replace('"TextTier"', '"IntervalTier"')
        .replace("points: size = 1", "1")
        .replace("number = 1", "xmin = 2\n xmax = 3")
    )
    found = one(tmp_path, "a.TextGrid", both)
    assert found.error
    assert "'talk', 'bell'; choose one by `texts: {tier: NAME}`" in found.error[1]
    [bell] = recordings(listed(tmp_path, texts={"tier": "bell"}))
    assert bell.segments == (Segment(2.0, 3.0, None, "ding"),)
    [two] = recordings(listed(tmp_path, texts={"tier": ["talk", "bell"]}))
    assert [(s.text, s.speaker) for s in two.segments or ()] == [
        ('say "one" now', "talk"), ("ding", "bell")
    ]  # fmt: skip
    [none] = recordings(listed(tmp_path, texts={"tier": "song"}))
    assert none.error
    assert "no tier 'song'; it has 'talk', 'bell'" in none.error[1]


def test_one_file_has_its_text(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    put(tmp_path / "a.txt", "hello")
    put(tmp_path / "b.txt", "other")
    found = listed(tmp_path / "a.wav")
    assert [r.text for r in recordings(found)] == ["hello"]
    assert reasons(found) == {"a.txt": "read_as_text"}


# bad input


def test_cues_that_say_nothing_are_counted(tmp_path: Path) -> None:
    text = (
        "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n"
        "2\n00:00:00,500 --> 00:00:02,000\nTwo.\n\n"
        "3\n00:00:02,000 --> 00:00:03,000\n\n"
        "4\n00:00:03,000 --> 00:00:04,000\n[music]\n\n"
        "5\n00:00:05,000 --> 00:00:05,000\nFive.\n\n"
        "6\n00:00:06,000 --> 00:00:07,000\nthe [inaudible] dog\n\n"
        "7\nwhen --> later\nSeven.\n\n"
        "8\n00:00:08,000 --> 00:00:09,000\nEight.\n"
    )
    put(tmp_path / "a.wav")
    put(tmp_path / "a.srt", text)
    found = listed(tmp_path)
    [recording] = recordings(found)
    assert [s.text for s in recording.segments or ()] == ["One.", "Two.", "Eight."]
    assert details(found)["a.srt"] == (
        "srt in utf-8: 3 segments; 1 cue marked as not understood; 1 cue of sounds only; "
        "1 cue overlapping others, kept; 1 cue without a length; 1 cue without a text; "
        "1 cue without a time"
    )


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;">]>'
    "<a><TIER TIER_ID='t'>&c;</TIER></a>"
)
FILE = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.txt", b"x" * (50 << 20), "a.txt: it is larger than 8.4 MB"),
        ("a.txt", b"x" * 1_000_001, "a text of 1.0 MB; at most 1.0 MB"),
        ("a.txt", b"RIFF\0\0\1\2\0\0", "NUL bytes"),
        ("a.srt", b"no times here", "it has no line with times"),
        ("a.ass", b"Dialogue: x", "no \\[Events\\]"),
        ("a.TextGrid", b"hello", "not a TextGrid"),
        ("a.TextGrid", MFA.encode()[:-12], "more or fewer entries than it states"),
        ("a.eaf", BOMB.encode(), "XML entities, which are not read"),
        ("a.eaf", FILE.encode(), "XML entities, which are not read"),
        ("a.eaf", b"<a><b></a>", "not an ELAN file"),
        ("a.ctm", b"a 1 0.5\n", "line 1 is not `file channel start duration word`"),
        ("a.ctm", b"a 1 x 0.5 one\n", "line 1: 'x and 0.5' are not seconds"),
        ("a.ctm", b"a in 0 1 one\na out 0 1 two\n", "'in' is not a channel: write A, B"),
        ("a.stm", b"b 1 s 0 1 one\nc 1 s 0 1 two\n", "no line of it names the recording a"),
        ("a.json", b'{"segments": [', "not JSON"),
        ("a.json", b'{"segments": [{"start": "x", "end": 1, "text": "a"}]}', "not a number"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.tsv", b"start\tend\ttext\n0.5\t1.5\ta\n", "line 2: start and end are not whole milli"),
        ("a.tsv", b"start\tend\ttext\n0\t3\ta\n3\t7\tb\n", "may be seconds, not ms"),
        ("a.srt", b"0:00:00,0 --> 0:00:01,0\nx\n" * (MOST + 1), "more than 100,000 cues"),
    ],
)
def test_a_text_that_cannot_be_read_costs_its_recording(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    put(tmp_path / "b.wav")
    put(tmp_path / "b.txt", "hello")
    put(tmp_path / "a.wav")
    put(tmp_path / name, data)
    found = listed(tmp_path)
    bad, good = recordings(found)
    assert (good.text, good.error) == ("hello", None)
    assert bad.error
    assert bad.error[0] == "bad_text"
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(bad.error[1])
    assert reasons(found) == {name: "bad_text", "b.txt": "read_as_text"}
    assert details(found)[name] in bad.error[1]


def test_links_and_folders_in_place_of_texts(tmp_path: Path) -> None:
    for name in ("loop", "gone", "away", "folder", "linked"):
        put(tmp_path / f"{name}.wav")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    (tmp_path / "gone.txt").symlink_to("nowhere")
    (tmp_path / "folder.txt").mkdir()
    put(tmp_path / "elsewhere/said.md", "hello")
    (tmp_path / "linked.txt").symlink_to("elsewhere/said.md")
    found = listed(tmp_path)
    assert {r.path: r.error and r.error[0] for r in recordings(found)} == {
        "loop.wav": "bad_text", "gone.wav": "bad_text", "away.wav": None, "folder.wav": None,
        "linked.wav": None,
    }  # fmt: skip
    assert next(r.text for r in recordings(found) if r.path == "linked.wav") == "hello"
    assert reasons(found)["loop.txt"] == "bad_text"
    assert "Too many levels" in details(found)["loop.txt"]


def test_many_texts_are_read_as_few_are(tmp_path: Path) -> None:
    for number in range(60):
        put(tmp_path / f"{number:02d}.wav")
        put(tmp_path / f"{number:02d}.txt", f"text {number}" * (20_000 if number == 7 else 1))
    found = recordings(listed(tmp_path))
    assert [r.text for r in found] == [
        f"text {number}" * (20_000 if number == 7 else 1) for number in range(60)
    ]


# speakers


def test_speakers_by_path(tmp_path: Path) -> None:
    for name in ("anna/1/a.wav", "bob/b.wav", "c.wav"):
        put(tmp_path / name)
    put(tmp_path / "bob/b.txt", "CARL: Hello there")

    def speakers(how: Any) -> list[str | None]:
        return [r.speaker for r in recordings(listed(tmp_path, speaker=how))]

    assert speakers("none") == [None, "CARL", None]
    assert speakers("parent_folder") == ["1", "CARL", None]
    assert speakers({"pattern": "^(?P<speaker>[^/]+)/"}) == ["anna", "CARL", None]
    assert speakers({"pattern": r"/(?P<speaker>\w)\.wav$"}) == ["a", "CARL", None]
    with pytest.raises(ConfigError, match=r"speaker.*it has no group"):
        speakers({"pattern": "(.*)/"})
    with pytest.raises(ConfigError, match=r"speaker.*not a regular expression"):
        speakers({"pattern": "(?P<speaker>"})


def test_turns_beside_a_recording_are_named_as_read(tmp_path: Path) -> None:
    put(tmp_path / "call.wav")
    put(tmp_path / "call.rttm", "SPEAKER call 1 0.0 1.0 <NA> <NA> anna <NA> <NA>\n")
    put(tmp_path / "orphan.rttm", "SPEAKER x 1 0.0 1.0 <NA> <NA> anna <NA> <NA>\n")
    assert reasons(listed(tmp_path)) == {"call.rttm": "read_as_turns", "orphan.rttm": "extension"}


def test_an_object_in_json_says_what_a_recording_is(tmp_path: Path) -> None:
    """As in WebDataset's samples and Emilia's folders."""
    found = one(tmp_path, "a.json", {"text": " Said. ", "speaker": "anna", "language": "arb"})
    assert (found.text, found.speaker, found.language) == ("Said.", "anna", "ar")
    wrong = one(tmp_path, "a.json", {"text": "Said.", "language": "klingon speech"})
    assert wrong.error is not None
    assert one(tmp_path, "a.json", {"title": "A talk", "text": ["x"]}).text is None
