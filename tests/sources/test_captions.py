"""Captions as video sites, players and aligners write them."""

from pathlib import Path
from typing import Any

import pytest

from tests.sources.test_texts_beside import details, listed, one, put, reasons, recordings
from uttermill.tasks.recording import Segment, TimedWord

LINES = ["we begin with", "a line of words", "and then another", "which ends it"]


def rolling(kind: str, timed: bool) -> str:
    """Captions that show each line twice, then alone for 10 ms; each line lasts 2 s."""
    shown, blocks = "", []
    for n, line in enumerate(LINES):
        start = 2.0 * n
        words = line.split()
        new = line
        if timed:
            step = 2.0 / len(words)
            tags = [f"<00:00:{start + step * k:06.3f}><c> {w}</c>" for k, w in enumerate(words)][1:]
            new = words[0] + "".join(tags)
        blocks.append((start, start + 1.99, f"{shown or ' '}\n{new}"))
        blocks.append((start + 1.99, start + 2.0, f"{line}\n "))
        shown = line
    if kind == "vtt":
        cues = (f"00:00:{a:06.3f} --> 00:00:{b:06.3f} align:start\n{t}\n" for a, b, t in blocks)
        return "WEBVTT\nKind: captions\n\n" + "\n".join(cues)
    timed_cues = (
        f"{n}\n00:00:{a:06.3f} --> 00:00:{b:06.3f}\n{t.strip()}\n"
        for n, (a, b, t) in enumerate(blocks, 1)
    )
    return "\n".join(timed_cues)


@pytest.mark.parametrize("kind", ["vtt", "srt"])
def test_each_word_of_roll_up_captions_is_said_once(tmp_path: Path, kind: str) -> None:
    found = one(tmp_path, f"a.{kind}", rolling(kind, timed=kind == "vtt"))
    assert found.segments is not None
    [segment] = found.segments
    assert segment.text == " ".join(LINES)
    assert (segment.start, segment.end) == (0.0, 7.99)
    if kind == "vtt":
        assert segment.words is not None
        assert [word.word for word in segment.words] == " ".join(LINES).split()
        assert segment.words[3].start == 2.0
        assert segment.words[4].start == 2.5
    assert "automatic captions" in details(listed(tmp_path))[f"a.{kind}"]


TTML = """<?xml version="1.0"?><tt xmlns="http://www.w3.org/ns/ttml"><body><div>
<p begin="00:00:01.000" end="00:00:02.500">One<br/>two.</p>
<p begin="3s" dur="1500ms"><span>Three.</span></p></div></body></tt>"""


def test_words_of_lyrics_have_times(tmp_path: Path) -> None:
    said = READ["the words of a line of lyrics, all times from 0"][1]
    first = (one(tmp_path, "a.ttml", said).segments or ())[0]
    assert first.words == (
        TimedWord("O", 1.0, 1.5),
        TimedWord("ne", 1.5, 1.6),
        TimedWord("two.", 1.7, 2.5),
    )


def test_ttml_that_declares_entities_is_refused(tmp_path: Path) -> None:
    bomb = TTML.replace("<tt ", '<!DOCTYPE t [<!ENTITY a "b">]><tt ')
    assert "entities" in str(one(tmp_path, "a.ttml", bomb).error)


def test_captions_named_with_their_language(tmp_path: Path) -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\nwords\n"
    put(tmp_path / "a.wav")
    put(tmp_path / "a.en.vtt", cue)
    put(tmp_path / "b.wav")
    put(tmp_path / "b.en.vtt", cue)
    put(tmp_path / "b.de.vtt", cue)
    put(tmp_path / "c.wav")
    put(tmp_path / "c.sub", "{1}{2}words")
    items = listed(tmp_path)
    segments = {found.path: found.segments for found in recordings(items)}
    assert segments["a.wav"] == (Segment(1.0, 2.0, None, "words"),)
    assert segments["b.wav"] is segments["c.wav"] is None
    assert reasons(items) == {
        "a.en.vtt": "read_as_text",
        "b.en.vtt": "text_without_audio",
        "b.de.vtt": "text_without_audio",
        "c.sub": "no_transcript",
    }
    assert "ffmpeg -subfps" in details(items)["c.sub"]
    put(tmp_path / "c.sub", "{1}{1}25.0\n{25}{50}One|{y:i}two.\n")
    segments = {r.path: r.segments for r in recordings(listed(tmp_path, language="de"))}
    assert segments["b.wav"] == (Segment(1.0, 2.0, None, "words"),)
    assert segments["a.wav"] is None  # it is not in German
    assert segments["c.wav"] == (Segment(1.0, 2.0, None, "One two."),)


MADE = [f"{line.capitalize()}." for line in LINES]


def by_hand(lines: list[str]) -> str:
    cues = (f"00:0{2 * n}.000 --> 00:0{2 * n + 1}.900\n{t}\n" for n, t in enumerate(lines))
    return "WEBVTT\n\n" + "\n".join(cues)


@pytest.mark.parametrize(
    ("machine", "person"),
    [
        ("a.vtt", "a.srt"),
        ("a.vtt", "a.en.vtt"),
        ("a.en-orig.vtt", "a.en.vtt"),
        ("a.auto.vtt", "a.vtt"),
    ],
)
def test_captions_made_by_hand_win(tmp_path: Path, machine: str, person: str) -> None:
    made = by_hand(MADE).replace("WEBVTT\n\n", "WEBVTT\n\n" if person.endswith("vtt") else "")
    put(tmp_path / "a.wav")
    put(tmp_path / person, made)
    for automatic in (rolling("vtt", timed=True), by_hand(LINES)):
        put(tmp_path / machine, automatic)
        items = listed(tmp_path, labels=["captions"])
        [found] = recordings(items)
        assert [segment.text for segment in found.segments or ()] == MADE
        assert found.labels == (("captions", "by_hand"),)
        assert reasons(items) == {machine: "second_text", person: "read_as_text"}
    put(tmp_path / person, by_hand(["Wir sagen hier", "ganz andere", "Worte auf", "Deutsch."]))
    items = listed(tmp_path)
    if not machine.startswith("a.auto"):  # the name that comes first is read
        assert reasons(items) == {person: "second_text", machine: "read_as_text"}
        assert recordings(items)[0].captions == "automatic"


def test_a_name_tells_automatic_captions(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    put(tmp_path / "a.en.auto.vtt", by_hand(MADE))
    [found] = recordings(listed(tmp_path))
    assert found.captions == "automatic"
    put(tmp_path / "b.wav")
    put(tmp_path / "b.en.forced.vtt", by_hand(MADE))  # of what is said in other languages alone
    assert recordings(listed(tmp_path))[1].segments is None


def test_lines_that_are_shown_while_the_next_is_said(tmp_path: Path) -> None:
    cues = [
        f"{n}\n00:00:0{2 * n},000 --> 00:00:0{2 * n + 3},500\n{t}\n" for n, t in enumerate(LINES)
    ]
    found = one(tmp_path, "a.srt", "\n".join(cues))
    [segment] = found.segments or ()
    assert (segment.start, segment.end, segment.text) == (0.0, 9.5, " ".join(LINES))
    assert [word.start for word in segment.words or ()] == [0.0, 2.0, 4.0, 6.0]
    assert found.captions == "automatic"


def test_what_nobody_understands_costs_its_own_cue(tmp_path: Path) -> None:
    lines = ["we begin with", "a [ __ ] line", "and then another", "[Music]", ">> which ends it"]
    blocks = [
        f"00:0{n}.000 --> 00:0{n + 1}.000\n{lines[n - 1] if n else ' '}\n{t}\n"
        for n, t in enumerate(lines)
    ]
    found = one(tmp_path, "a.vtt", "WEBVTT\n\n" + "\n".join(blocks)).segments or ()
    assert [segment.text for segment in found] == [lines[0], lines[2], "which ends it"]


def test_labels_of_a_downloaded_video(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    info = {"title": "A talk", "id": "x1", "license": "CC-BY", "upload_date": "20200101", "n": [1]}
    put(tmp_path / "a.info.json", info)
    items = listed(tmp_path)
    assert "labels: [title, id, language, licence" in details(items)["a.info.json"]
    names = ["title", "licence", "upload_date", "language"]
    for where in (tmp_path, tmp_path / "a.wav"):
        items = listed(where, labels=names)
        stated = (("title", "A talk"), ("licence", "CC-BY"), ("upload_date", "20200101"))
        assert recordings(items)[0].labels == stated
        assert reasons(items) == {"a.info.json": "read_as_labels"}
    put(tmp_path / "a.info.json", "{")
    items = listed(tmp_path, labels=names)
    assert reasons(items) == {"a.info.json": "bad_text"}
    assert recordings(items)[0].error is None


def grid(**tiers: list[tuple[float, float, str]]) -> str:
    """A TextGrid in Praat's short form."""
    rows = [f'"{name}"\n0\n9\n{len(spans)}' for name, spans in tiers.items()]
    bodies = ["\n".join(f'{a}\n{b}\n"{t}"' for a, b, t in spans) for spans in tiers.values()]
    items = "\n".join(
        f'"IntervalTier"\n{row}\n{body}' for row, body in zip(rows, bodies, strict=True)
    )
    return f'File type = "ooTextFile"\n"TextGrid"\n0\n9\n<exists>\n{len(tiers)}\n{items}\n'


def test_webmaus_words(tmp_path: Path) -> None:
    words = [(0.0, 0.5, "so"), (0.5, 1.0, "what")]
    sounds = [(0.0, 0.2, "s"), (0.2, 0.5, "@U")]
    words.append((1.0, 2.0, "<nib>"))
    for more in ({}, {"MAS": sounds, "KAS": sounds}):
        text = grid(**{"ORT-MAU": words, "KAN-MAU": sounds, "MAU": sounds, **more})
        [segment] = one(tmp_path, "a.TextGrid", text).segments or ()
        assert segment.text == "so what"


def test_words_in_a_tier_of_another_name(tmp_path: Path) -> None:
    words = [
        (0.5 * n, 0.5 * n + 0.5, word)
        for n, word in enumerate(["uno", "dos", "tres", "cuatro", "seis"])
    ]
    [segment] = one(tmp_path, "a.TextGrid", grid(palabras=words)).segments or ()
    assert (segment.text, len(segment.words or ())) == ("uno dos tres cuatro seis", 5)
    text = grid(frases=[(0, 2.5, "Uno, dos …")], palabras=words)
    assert one(tmp_path, "a.TextGrid", text).segments == (Segment(0.0, 2.5, None, "Uno, dos …"),)
    prompts = grid(prompts=[(start * 4, end * 4 - 1, word) for start, end, word in words])
    assert len(one(tmp_path, "a.TextGrid", prompts).segments or ()) == 5


def test_two_speakers_of_an_aligner_take_turns(tmp_path: Path) -> None:
    anna = [(0.0, 0.5, "so"), (0.5, 1.0, "what"), (4.0, 4.5, "right")]
    bob = [(1.2, 1.6, "well"), (1.6, 2.0, "this"), (2.8, 3.0, "then")]
    sounds = [(0.0, 0.2, "s")]
    text = grid(
        **{
            "anna - words": anna,
            "anna - phones": sounds,
            "bob - words": bob,
            "bob - phones": sounds,
        }
    )
    turns = [
        (0.0, 1.0, "so what", "anna"),
        (1.2, 2.0, "well this", "bob"),
        (2.8, 3.0, "then", "bob"),
        (4.0, 4.5, "right", "anna"),
    ]
    for options in ({}, {"texts": {"tier": ["anna - words", "bob - words"]}}):
        found = one(tmp_path, "a.TextGrid", text, **options).segments or ()
        assert [(s.start, s.end, s.text, s.speaker) for s in found] == turns


def test_a_text_of_timit_begins_with_samples(tmp_path: Path) -> None:
    assert one(tmp_path, "a.txt", "0 46797 She had your suit.\n").text == "She had your suit."
    assert one(tmp_path / "b", "b.txt", "0 9 is no phone number.").text == "0 9 is no phone number."


def test_what_is_written_beside_texts_is_not_said(tmp_path: Path) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nSaid.\n"
    assert one(tmp_path / "srt", "a.srt.txt", srt).segments == (Segment(1.0, 2.0, None, "Said."),)
    labels = "0,5\t1,5\tOne.\n2,0\t3,5\tTwo.\n"  # as Audacity writes them in German
    found = one(tmp_path / "labels", "a.txt", labels).segments or ()
    assert [(s.start, s.end) for s in found] == [(0.5, 1.5), (2.0, 3.5)]
    for n, text in enumerate(("0:00\nso it\n0:03\ngoes\n", "Anna  0:01\nSo.\n\nBob  0:04\nYes.\n")):
        error = one(tmp_path / f"page{n}", "a.txt", text).error
        assert error is not None
        assert "begin or end with times" in error[1]
    words = one(tmp_path / "words", "a.lab", "0.0 0.5 so\n0.5 1.0 it\n")
    assert (words.text, words.error) == (None, None)


ENGLISH = ["You are not the one.", "What is this?", "And it was not that.", "I have it with you."]
GERMAN = ["Du bist es nicht.", "Was ist das?", "Und das ist es nicht.", "Ich habe es mit dir."]
CHINESE = ["你不是那个人", "这是什么", "那也不是", "我有"]


def two(first: list[str], second: list[str], apart: bool) -> str:
    """Captions in two languages: two lines of a cue, or two cues."""
    cues = []
    for n, pair in enumerate(zip(first, second, strict=True)):
        times = f"00:0{2 * n}.000 --> 00:0{2 * n + 1}.000\n"
        cues.append(times + (f"\n\n{times}" if apart else "\n").join(pair) + "\n")
    return "WEBVTT\n\n" + "\n".join(cues)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("other", "code"), [(GERMAN, "de"), (CHINESE, "zh")])
def test_of_captions_in_two_languages_the_one_that_is_spoken(
    tmp_path: Path, other: list[str], code: str, apart: bool
) -> None:
    text = two(other, ENGLISH, apart)
    for options, right in (
        ({"language": "en"}, ENGLISH),
        ({"language": code}, other),
        ({"texts": {"language": "en"}, "language": code}, ENGLISH),
    ):
        found = one(tmp_path, "a.vtt", text, **options).segments or ()
        assert [segment.text for segment in found] == right
    refused = one(tmp_path, "a.vtt", text)
    assert refused.error is not None
    assert "in two languages" in refused.error[1]
    assert "`texts: {language: …}`" in refused.error[1]


RUSSIAN = ["Это не ты.", "Что это такое?", "И это было не так.", "Он у меня и у тебя."]
UKRAINIAN = ["Це не ти.", "Що це таке?", "І це було не так.", "Він у мене і у тебе."]
SLOVAK = ["Nie si to ty.", "Čo je toto?", "A toto nebolo tak.", "Mám ho pri sebe."]
SWAHILI = ["Wewe si yeye.", "Hii ni nini?", "Na haikuwa hivyo.", "Ninayo pamoja nawe."]
JAPANESE = ["あなたではない", "これは何", "それも違う", "私が持つ"]


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (CHINESE, JAPANESE, "zh"),
        (JAPANESE, CHINESE, "ja"),
        (UKRAINIAN, RUSSIAN, "uk"),
        (SLOVAK, ENGLISH, "sk"),
        (SWAHILI, ENGLISH, "sw"),
        ([f"{line}\n{line}" for line in CHINESE], ENGLISH, "zh"),
    ],
)
def test_languages_of_one_script_and_cues_of_three_lines(
    tmp_path: Path, first: list[str], second: list[str], code: str
) -> None:
    text = two(first, second, apart=False)
    found = one(tmp_path, "a.vtt", text, language=code).segments or ()
    assert [segment.text for segment in found] == [" ".join(line.split("\n")) for line in first]
    refused = one(tmp_path, "a.vtt", text)
    assert "in two languages" in (refused.error or ("", ""))[1]


def test_two_voices_of_a_line_are_of_no_speaker(tmp_path: Path) -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>So.</v> <v Bob>Yes.</v>\n"
    assert one(tmp_path, "a.vtt", cue).segments == (Segment(1.0, 2.0, None, "So. Yes."),)


def test_signs_on_the_picture_are_not_said(tmp_path: Path) -> None:
    rows = [
        "Default,,Said.",
        "Default,,{\\pos(320,40)}TOWN HALL",
        "Signs,,Exit",
        "Default,Banner;40,News",
        "Default,,{\\an8}Said above.",
    ]
    lines = (f"Dialogue: 0:00:0{n}.00,0:00:0{n}.90,{row}\n" for n, row in enumerate(rows))
    ass = "[Events]\nFormat: Start, End, Style, Effect, Text\n" + "".join(lines)
    found = one(tmp_path, "a.ass", ass).segments or ()
    assert [segment.text for segment in found] == ["Said.", "Said above."]
    assert "3 cues of signs on the picture" in details(listed(tmp_path))["a.ass"]
    placed = ass.replace(",,", ",,{\\pos(9,9)}")  # as of a converter, which places all lines
    assert len(one(tmp_path, "a.ass", placed).segments or ()) == 3


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a.en.json3", "yt-dlp --sub-format vtt"),
        ("a.de.smi", "ffmpeg -i a.de.smi a.de.srt"),
        ("a.sup", "OCR"),
        ("a.docx", "a.txt"),
        ("a.stl", "Subtitle Edit"),
        ("a.cha", "import it into ELAN, and save it as a.eaf"),
    ],
)
def test_texts_of_other_kinds_are_named_with_what_to_do(
    tmp_path: Path, name: str, says: str
) -> None:
    one(tmp_path, name, "x")
    items = listed(tmp_path)
    assert reasons(items) == {name: "no_transcript"}
    assert says in details(items)[name]


def test_names_of_captions(tmp_path: Path) -> None:
    for name in ("a.wav.vtt", "b.English.vtt", "c.en-de.vtt", "d_en.vtt"):
        put(tmp_path / name, by_hand(MADE))
    for name in ("a.wav", "b.mp4", "c.mp4", "d.mp4", "all.stm"):
        put(tmp_path / name)
    items = listed(tmp_path)
    assert reasons(items) == {
        "a.wav.vtt": "read_as_text",
        "b.English.vtt": "read_as_text",
        "c.en-de.vtt": "text_without_audio",  # a machine translated it from German
        "d_en.vtt": "text_without_audio",
        "all.stm": "text_without_audio",
    }
    assert [found.segments is not None for found in recordings(items)] == [True, True, False, False]


@pytest.mark.parametrize("text", ["e\u0301.srt", "\u00e9.srt"])
@pytest.mark.parametrize("audio", ["e\u0301.wav", "\u00e9.wav"])
def test_accents_of_a_name_may_be_written_apart(tmp_path: Path, audio: str, text: str) -> None:
    put(tmp_path / audio)
    put(tmp_path / text, "1\n00:00:01,000 --> 00:00:02,000\nSaid.\n")
    items = listed(tmp_path)
    [found] = recordings(items)
    assert found.segments == (Segment(1.0, 2.0, None, "Said."),)
    assert [*reasons(items).values()] == ["read_as_text"]


def vtt(each: float, *texts: str) -> str:
    """A cue a second, each of so many seconds."""
    cues = (f"00:0{n}.000 --> 00:{n + each:06.3f}\n{text}\n" for n, text in enumerate(texts))
    return "WEBVTT\n\n" + "\n".join(cues)


WORDS = ["one", "two", "three", "four", "five"]
MARKED = ("<u>so</u> it goes on", "so <u>it</u> goes on", "so it <u>goes</u> on",
          "so it goes <u>on</u>")  # fmt: skip
NO_AND_NEVER = ["No.", "No.", "I said no.", "Never.", "Never."]
SENTENCES = ["This is the", "first sentence.", "A second.", "And one that", "goes on,", "and ends.",
             "- A turn", "- of another."]  # fmt: skip
BOTH: list[tuple[float, float | None, str]] = [(1.0, 2.5, "One two."), (3.0, 4.5, "Three.")]
CTM = ("0 1 one", "* * <ALT_BEGIN>", "1 1 two", "* * <ALT>", "1 1 too", "* * <ALT_END>",
       "2 1 %hesitation", "2 1 @", "3 1 three")  # fmt: skip
OTHER = {  # on two lines, in languages that are not listed
    "Tagalog": ["Hindi ko alam kung ano\nang ibig mong sabihin.",
                "Malaki ang bahay at\nang mga bata."],
    "Norwegian": ["Jeg vet ikke hva du\nmener med det.",
                  "Hun vil ikke spise fordi\nhun ikke er sulten."],
    "Bulgarian": ["Не знам какво искаш\nда кажеш с това.", "Аз мисля, че влакът\nтръгва в девет."],
}  # fmt: skip
PARTS = (
    '<A><TIME_ORDER><TIME_SLOT TIME_SLOT_ID="1" TIME_VALUE="1000"/><TIME_SLOT TIME_SLOT_ID="2"/>'
    '<TIME_SLOT TIME_SLOT_ID="3"/><TIME_SLOT TIME_SLOT_ID="4" TIME_VALUE="3000"/></TIME_ORDER>'
    '<TIER TIER_ID="t">'
    + "".join(
        f'<ALIGNABLE_ANNOTATION TIME_SLOT_REF1="{n}" TIME_SLOT_REF2="{n + 1}"><ANNOTATION_VALUE>'
        f"{word}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION>"
        for n, word in enumerate(["One", "two", "three"], 1)
    )
    + "</TIER></A>"
)
#: A file beside the recording, its text, settings, and the segments: start, end, text.
READ: dict[str, tuple[str, str, dict[str, Any], list[tuple[float, float | None, str]]]] = {
    "a line that grows is said once":
        ("a.vtt", vtt(1, *(" ".join(WORDS[: n + 1]) for n in range(5))), {},
         [(0, 5, " ".join(WORDS))]),
    "a line in which each word is marked in its turn":
        ("a.vtt", vtt(1, *MARKED), {}, [(0, 4, "so it goes on")]),
    "what people say twice stays":
        ("a.vtt", vtt(0.9, *NO_AND_NEVER), {},
         [(n, n + 0.9, t) for n, t in enumerate(NO_AND_NEVER)]),
    "a pause parts automatic captions":
        ("a.srt", rolling("srt", timed=False).replace("00:00:04.000", "00:00:05.200"), {},
         [(0, 3.99, " ".join(LINES[:2])), (5.2, 7.99, " ".join(LINES[2:]))]),
    "cues of one sentence are one segment":
        ("a.vtt", vtt(0.9, *SENTENCES), {},
         [(0, 1.9, "This is the first sentence."), (2, 2.9, "A second."),
          (3, 5.9, "And one that goes on, and ends."), (6, 6.9, "A turn"),
          (7, 7.9, "of another.")]),
    "a cue of markup alone, in automatic captions":
        ("a.vtt", vtt(1, *(" ".join(WORDS[: n + 1]) for n in range(5)), "&nbsp;", "<c></c>"), {},
         [(0, 5, " ".join(WORDS))]),
    "TTML": ("a.ttml", TTML, {}, BOTH),
    "SBV": ("a.sbv", "0:00:01.000,0:00:02.500\nOne\ntwo.\n\n0:00:03.000,0:00:04.500\nThree.\n", {},
            BOTH),
    "Whisper's table":
        ("a.tsv", "start\tend\ttext\n1000\t2500\tOne \"two.\n3000\t4500\tThree.\n", {},
         [(1, 2.5, 'One "two.'), (3, 4.5, "Three.")]),
    "times as translators and word processors leave them":
        ("a.srt", "1\n00:00:01 , 000 -> 00:00:02:500\nOne two.\n\n"
         "2\n0000:00:03,000 → 00:00:04 ,500\nThree.\n", {}, BOTH),
    "what Whisper prints":
        ("a.txt", "[00:01.000 --> 00:02.500]  One two.\n[00:03.000 --> 00:04.500]  Three.\n", {},
         BOTH),
    "SubViewer": ("a.sub", "[SUBTITLE]\n00:00:01.00,00:00:02.50\nOne[br]two.\n\n"
                  "00:00:03.00,00:00:04.50\nThree.\n", {}, BOTH),
    "a number that is said is not the next cue's":
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nBorn in\n1984\n\n"
         "00:03.000 --> 00:04.000\n42\n", {}, [(1, 2, "Born in 1984"), (3, 4, "42")]),
    "an empty line within a cue without a name ends nothing":
        ("a.sbv", "0:00:01.000,0:00:02.500\nOne\n\ntwo.\n\n0:00:03.000,0:00:04.500\nThree.\n", {},
         BOTH),
    "Apple's TTML, with how a word is read":
        ("a.itt", '<tt xmlns="http://www.w3.org/ns/ttml"><head><styling>'
         '<style xml:id="r" tts:ruby="text"/></styling></head><body><div>'
         '<p begin="1s" end="2s"><span tts:ruby="base">漢字</span><span style="b r">かんじ</span>'
         'です<span tts:ruby="text">さ</span></p></div></body></tt>'
         .replace("<tt ", '<tt xmlns:tts="http://www.w3.org/ns/ttml#styling" '), {},
         [(1, 2, "漢字です")]),
    "words that nobody understood cost their turn of an aligner's":
        ("a.TextGrid", grid(words=[(0, 1, "so"), (1, 2, "it"), (4, 5, "<unk>"), (5, 6, "goes"),
                                   (8, 9, "on")]), {}, [(0, 2, "so it"), (8, 9, "on")]),
    "and of a CTM's":
        ("a.ctm", "a 1 0 1 so\na 1 3 1 it\na 1 4 1 <UNK>\na 1 7 1 on\n", {},
         [(0, 1, "so"), (7, 8, "on")]),
    "annotations of ELAN without times of their own are part of a span":
        ("a.eaf", PARTS, {}, [(1, 3, "One two three")]),
    "markup of a line end parts words":
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,500\n<b>One</b><br/>two.\n\n"
         "2\n00:00:03,000 --> 00:00:04,500\nThree.\n", {}, BOTH),
    "where many lines begin with names, so do all":
        ("a.vtt", vtt(0.9, "Anna Lee: One.", "Bob: Two.", "Anna Lee: Three.", "Note: four."), {},
         [(0, 0.9, "One."), (1, 1.9, "Two."), (2, 2.9, "Three."), (3, 3.9, "four.")]),
    "a sentence does not go on in another voice":
        ("a.vtt", vtt(0.9, "Anna Lee: I think", "Anna Lee: so.", "Anna Lee: And we", "Bob: No.",
                      "Anna Lee: Yes."), {},
         [(0, 1.9, "I think so."), (2, 2.9, "And we"), (3, 3.9, "No."), (4, 4.9, "Yes.")]),
    "a colon in some lines names nobody":
        ("a.vtt", vtt(0.9, "One.", "Two.", "Note: three.", "Four.", "Five.", "Six: seven."), {},
         [(0, 0.9, "One."), (1, 1.9, "Two."), (2, 2.9, "Note: three."), (3, 3.9, "Four."),
          (4, 4.9, "Five."), (5, 5.9, "Six: seven.")]),
    "pictures of a film are no text":
        ("a.vtt", vtt(1, "a.jpg#xywh=0,0,9,9", "a.jpg#xywh=9,0,9,9"), {}, []),
    "LRC": ("a.lrc", "[ti:x]\n[00:01.00]One two.\n[00:02.50]\n[00:03.00]Three.\n[00:04.50]\n",
            {}, BOTH),
    "times of TTML count from what they are in":
        ("a.ttml", '<tt xmlns="http://www.w3.org/ns/ttml"><body><div begin="10s">'
         '<p begin="1s" end="2s">One<span>.</span></p></div><div><p>'
         '<span begin="3s" end="4s">Two.</span></p></div></body></tt>',
         {}, [(3, 4, "Two."), (11, 12, "One.")]),
    "LRC with hours":
        ("a.lrc", "[00:59:59.50]One two.\n[01:00:01.25]<01:00:01.25>Three. <01:00:02.00>Four.\n"
         "[01:00:03:50]\n", {}, [(3599.5, 3601.25, "One two."), (3601.25, 3603.5, "Three. Four.")]),
    "the words of a line of lyrics, all times from 0":
        ("a.ttml", '<tt xmlns="http://www.w3.org/ns/ttml" xmlns:m="urn:m"><body dur="2:00.0">'
         '<div begin="1.0" end="1:09.5"><p begin="1.0" end="2.5">'
         '<span begin="1.0" end="1.5">O</span><span begin="1.5" end="1.6">ne</span>, '
         '<span begin="1.7" end="2.5">two.</span>'
         '<span m:role="x-translation">Eins, zwei.</span></p><p begin="1:08.0" end="1:09.5">'
         '<span begin="1:08.0" end="1:09.5">Three.</span></p></div></body></tt>',
         {}, [(1, 2.5, "One, two."), (68, 69.5, "Three.")]),
    "the words of a line, timed from its beginning":
        ("a.ttml", '<tt xmlns="http://www.w3.org/ns/ttml"><body><div><p begin="8s" end="12s">'
         '<span begin="1s" end="2s">One</span>\n<span begin="2s" end="3s">two.</span></p></div>'
         '</body></tt>', {}, [(9, 11, "One two.")]),
    "what translators note in braces is not said":
        ("a.ass", "[Events]\nFormat: Start, End, Text\nDialogue: 0:00:01.00,0:00:02.00,"
         "{\\i1}Said{\\i0}{a pun in French} so\n", {}, [(1, 2, "Said so")]),
    "how a word is read is not said twice":
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n<ruby>漢字<rt>かんじ</rt></ruby>です\n", {},
         [(1, 2, "漢字です")]),
    "alternatives of a CTM count once":
        ("a.ctm", "".join(f"a 1 {row}\n" for row in CTM), {}, [(0, None, "one two three")]),
    "and of an STM":
        ("a.stm", "a A b 0 1 <o> one { two / to / @ } three { @ / um }\n", {},
         [(0, 1, "one two three")]),
    "lyrics in two languages have lines of equal times":
        ("a.lrc", "".join(f"[00:0{2 * n}.00]{a}\n[00:0{2 * n}.00]{b}\n"
                          for n, (a, b) in enumerate(zip(CHINESE, ENGLISH, strict=True))),
         {"language": "en"},
         [(2 * n, 2 * n + 2 if n < 3 else None, text) for n, text in enumerate(ENGLISH)]),
    "a sentence on two lines is in one language":
        ("a.vtt", two(ENGLISH, ENGLISH[::-1], apart=False), {},
         [(2 * n, 2 * n + 1, f"{a} {b}")
          for n, (a, b) in enumerate(zip(ENGLISH, ENGLISH[::-1], strict=True))]),
    **{f"on two lines in {name}":
        ("a.vtt", by_hand(lines), {},
         [(2 * n, 2 * n + 1.9, " ".join(text.split())) for n, text in enumerate(lines)])
       for name, lines in OTHER.items()},
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "options", "segments"), READ.values(), ids=READ)
def test_what_is_said_in_captions(
    tmp_path: Path,
    name: str,
    text: str,
    options: dict[str, Any],
    segments: list[tuple[float, float | None, str]],
) -> None:
    found = one(tmp_path, name, text, **options).segments or ()
    assert [(round(s.start, 3), s.end and round(s.end, 3), s.text) for s in found] == segments
