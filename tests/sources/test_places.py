"""Sources and OUT are apart, results are never recordings, and an empty folder is called empty."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tests.helpers import corpus
from uttermill.flows import checks, settings
from uttermill.tasks import plugins, scoring
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.recording import Recording
from uttermill.tasks.settings import Source
from uttermill.tasks.settings.job import Job
from uttermill.tasks.sources._beside.cues import Said, recurring, said

FAKE = ["transcribe.backend.use=fake", "shard.settle_seconds=0"]


def asked(source: Path, out: Path, *sets: str) -> Job:
    return checks.check(settings.read(None, [str(source)], str(out), [*FAKE, *sets]))


@pytest.mark.parametrize(
    ("source", "out", "sentence"),
    [
        ("in", "in/out", "lies in the source"),
        ("in", "in", "are one folder"),
        ("all/in", "all", "lies in out"),
        ("all/audio/x", "all", "lies in out"),
        ("in", "link/out", "lies in the source"),
    ],
)
def test_out_and_sources_are_apart(tmp_path: Path, source: str, out: str, sentence: str) -> None:
    corpus.make(tmp_path / source, 1)
    if out.startswith("link"):
        (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(ConfigError) as caught:
        asked(tmp_path / source, tmp_path / out)
    assert sentence in str(caught.value)


def test_neighbours_with_alike_names_are_apart(tmp_path: Path) -> None:
    corpus.make(tmp_path / "data", 1)
    assert asked(tmp_path / "data", tmp_path / "data-out")
    corpus.make(tmp_path / "out/corpus", 1)
    assert asked(tmp_path / "out/corpus", tmp_path / "out"), "as the demo has it"


@pytest.mark.full
def test_results_of_any_run_are_never_recordings(tmp_path: Path) -> None:
    """Four clips stayed four, and did not become eight, sixteen and thirty-two."""
    corpus.make(tmp_path / "all/in", 4)
    job = asked(tmp_path / "all/in", tmp_path / "all/prepared", "package.formats=[wenet_raw]")
    corpus.run(job)
    assert [*(tmp_path / "all/prepared/datasets").rglob("*.wav")]
    (tmp_path / "all/later").symlink_to(tmp_path / "all/prepared/datasets")
    clip = next((tmp_path / "all/prepared/datasets").rglob("*.wav"))
    (tmp_path / "all/clip.wav").symlink_to(clip)
    other = asked(tmp_path / "all", tmp_path / "other")
    published, _ = corpus.run(other)
    assert published.summary["recordings"]["in"] == 4
    left = {each.source_path.removeprefix(f"{tmp_path}/"): each.reason for each in
            corpus.surveyed(other).left}  # fmt: skip
    assert left == dict.fromkeys(
        ["all/later", "all/clip.wav", *(f"all/prepared/{name}" for name in
         ("audio", "datasets", "manifests"))],
        "results_of_uttermill",
    )  # fmt: skip
    with pytest.raises(ConfigError, match="holds results of uttermill"):
        asked(clip.parent, tmp_path / "other2")


def test_the_users_own_folders_of_these_names_are_taken(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in/audio", 2)
    corpus.make(tmp_path / "in/datasets/runs", 2)
    published, _ = corpus.run(asked(tmp_path / "in", tmp_path / "out"))
    assert published.summary["recordings"]["in"] == 4


def test_an_empty_folder_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/notes.txt").write_text("no audio")
    with pytest.raises(ConfigError) as caught:
        asked(tmp_path / "in", tmp_path / "out")
    said = str(caught.value)
    assert said.startswith(f"no audio files under {tmp_path}/in; looked for wav, flac, mp3, ")
    (tmp_path / "in/state.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"saved by `save_to_disk`: write each split as Parquet"):
        asked(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in/state.json").unlink()
    (tmp_path / "in/deep/b.SLN").write_bytes(bytes(320))
    with pytest.raises(ConfigError, match=r"deep/b.SLN is not read: a \.sln file has no header"):
        asked(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in/deep/b.SLN").unlink()
    (tmp_path / "in/deep/part.parquet").write_text("")
    with pytest.raises(ConfigError, match=r"more extensions; give the source kind: hf_parquet$"):
        checks.check(corpus.wishes(tmp_path))
    (tmp_path / "list.jsonl").write_text("")
    listed = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl")}]
    with pytest.raises(ConfigError, match="names no recordings"):
        checks.check(corpus.wishes(tmp_path, sources=listed))


def test_one_empty_folder_beside_others_is_only_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.make(tmp_path / "in", 1)
    (tmp_path / "later").mkdir()
    sources = [str(tmp_path / "in"), str(tmp_path / "later")]
    with caplog.at_level(logging.WARNING, "uttermill"):
        checks.check(settings.read(None, sources, str(tmp_path / "out"), FAKE))
    assert f"no audio files under {tmp_path}/later" in caplog.text


def test_a_source_that_was_there_and_is_gone_is_not_called_empty(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    corpus.run(asked(tmp_path / "in", tmp_path / "out"))
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    assert asked(tmp_path / "in", tmp_path / "out"), "max_removed_fraction refuses it, exit 1"


@pytest.mark.nightly
def test_a_folder_in_place_of_the_link_to_the_newest_version_is_refused(tmp_path: Path) -> None:
    """A copy of OUT by a program that follows links: `latest` would stay at the old version."""
    corpus.make(tmp_path / "in", 2)
    corpus.run(corpus.job(tmp_path))
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    with pytest.raises(ConfigError, match=r"datasets/latest is a folder.* remove that folder"):
        asked(tmp_path / "in", tmp_path / "copy")
    corpus.add(tmp_path / "in", 2)
    with pytest.raises(ConfigError, match="is a folder"):
        corpus.run(corpus.job(tmp_path, out=tmp_path / "copy"))
    shutil.rmtree(tmp_path / "copy/datasets/latest")
    assert asked(tmp_path / "in", tmp_path / "copy")
    corpus.run(corpus.job(tmp_path, out=tmp_path / "copy"))
    assert (tmp_path / "copy/datasets/latest").resolve().name == "v0002"


def test_a_run_from_a_folder_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = corpus.make(tmp_path / "in", 1)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert asked(source, tmp_path / "out")
    (tmp_path / "here").rmdir()
    with pytest.raises(ConfigError, match="cd to one that exists"):
        asked(source, tmp_path / "out")


# What a transcript's line says, and which texts hold no words at all.


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("Hello,  there.", Said("Hello, there.")),
        # markup
        ("<i>it</i> is &amp; was", Said("it is & was")),
        ('{\\an8}Up <font color="#fff">here</font>', Said("Up here")),
        ("<00:00:19.039><c.yellow> word</c>", Said("word")),
        ("it's 3 < 4 and 5 > 2", Said("it's 3 < 4 and 5 > 2")),
        # speakers
        ("<v Anna>Hi</v>", Said("Hi", "Anna")),
        ("<v.loud Anna Bell>Hi", Said("Hi", "Anna Bell")),
        ("ANNA: Hello there", Said("Hello there", "ANNA")),
        ("DR. O'NEILL: Hello there", Said("Hello there", "DR. O'NEILL")),
        ("АННА: Привет", Said("Привет", "АННА")),
        ("[SPEAKER_00]: hello", Said("hello", "SPEAKER_00")),
        ("Speaker 1: hello", Said("hello", "Speaker 1")),
        (">> ANNA: Hello", Said("Hello", "ANNA")),
        ("ANNA: One\nand two", Said("One and two", "ANNA")),
        ("ANNA: One\nBOB: Two", Said("One Two")),
        ("- Hello.\n- Bye.", Said("Hello. Bye.")),
        ("-Hello.\n–Bye.", Said("Hello. Bye.")),
        # no speakers
        ("He said: come", Said("He said: come")),
        ("THEY SAID: COME HERE", Said("THEY SAID: COME HERE")),
        ("at 12:30 or 1: what", Said("at 12:30 or 1: what")),
        ("-5 degrees", Said("-5 degrees")),
        ("a well-known fact", Said("a well-known fact")),
        # sounds
        ("[music]", Said("")),
        ("[music] hello (laughs)", Said("hello")),
        ("(SIGHS) Well *coughs* yes", Said("Well yes")),
        ("（笑）はい【音楽】", Said("はい")),
        ("(door slams)", Said("")),
        ("♪", Said("")),
        ("♪ la la ♪", Said("")),
        ("It begins ♪ la la ♪", Said("It begins")),
        ("The dose (ten minims) is small", Said("The dose (ten minims) is small")),
        ("so ++breath++ it {laugh} is &=laughs !SIL", Said("so it is")),
        ("[laughter-yes] i do", Said("yes i do")),
        ("!SIL", Said("")),
        # words that nobody understood
        ("the [inaudible] dog", Said("the [inaudible] dog", unheard=True)),
        ("the <UNK> dog", Said("the <UNK> dog", unheard=True)),
    ],
)
def test_what_a_line_says(raw: str, expected: Said) -> None:
    says = said(raw)
    assert says._replace(text=scoring.unmarked(says.text)) == expected


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("[music] hello (laughs)", "&=music hello &=laughs"),
        ("(door slams)\nWell *coughs*, yes", "&=door_slams Well &=coughs , yes"),
        ("（笑）はい【音楽】", "&=笑 はい &=音楽"),
        ("It begins ♪ la la ♪", "It begins &=music"),
        ("so ++breath++ it {laugh} [laughter-is]", "so ++breath++ it {laugh} is"),
        ("at [10:32] he said", "at he said"),
    ],
)
def test_a_line_has_marks_of_its_sounds(raw: str, text: str) -> None:
    assert said(raw).text == text


def test_a_name_that_begins_two_lines_is_a_speaker() -> None:
    script = "Anna: One\nBob: Two\nAnna: Three"
    assert recurring(script.splitlines()) == {"Anna", "Bob"}, "where all lines begin with names"
    text = f"{script}\nFour\nFive\nSix\nSeven\nEight"
    assert recurring(text.splitlines()) == {"Anna"}
    assert said("Anna: One", recurring([text])) == Said("One", "Anna")
    assert said("Bob: Two", recurring([text])) == Said("Bob: Two")
    capitals = recurring(["ANNA: COME IN", "ANNA: SIT DOWN"])
    assert said("ANNA: COME IN", capitals) == Said("COME IN", "ANNA")


@pytest.mark.parametrize(
    "text",
    [
        "[inaudible]", "[inaudible 00:12]", "...", "…", "—", "???", "<UNK>", "<spoken_noise>",
        "(laughs)", "(laughs) [music]", "♪", "♪ ♪", "*sighs*", "{cough}", "（笑）", "【音楽】",
        "[a [b] c]", "UNK", "SIL", "xxx",
        "!SIL", "++breath++", "spn", "<spn>", "nsn", "sil", "<eps>", "<s> </s>", "(( ))", "{laugh}",
        "{B_TRANS}", "&-um", "&=laughs &-uh", "SIL SIL", "spn [noise] nsn", "!SIL ++um++ !EXIT",
    ],
)  # fmt: skip
def test_texts_without_words(text: str) -> None:
    assert scoring.wordless(text)


@pytest.mark.parametrize(
    "text",
    [
        "hello", "I", "2014", "um", "今天", "Sil", "[music] hello", "(yes) no", "ok [laughs]",
        "Spn", "sil no", "noise", "silence", "breath", "music", "laugh", "!hola", "C++", "AT&T",
        "[laughter-yes]", "<LAUGH-yes>", "q&-a", "1 ++i++ 2",
        "(this is a sentence that somebody put between brackets, as some people often do)",
    ],
)  # fmt: skip
def test_texts_with_words(text: str) -> None:
    assert not scoring.wordless(text)


def test_a_mark_that_is_a_word_of_the_language_is_one() -> None:
    row: Any = {"raw_text": "sil", "language": "tr", "scoring": None, "reference": None}
    assert scoring.scored(row, "sil", None)["words"] == 1  # "delete"
    assert scoring.scored(row, "sil", "en")["words"] is None
    assert scoring.wordless("spn", "tr")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("so [noise] it ++um++ is", "so it is"),
        ("!SIL hello <sil> there !SIL", "hello there"),
        ("{laugh} well (( )) &-um yes", "well yes"),
        ("i [vocalized-noise] know [laughter-that]", "i know that"),
        ("<SIL> <LAUGH-okay> {E_TRANS}", "okay"),
        ("the <UNK> dog", "the <UNK> dog"),
        ("the SIL and the spn", "the SIL and the spn"),
        ("[see note] a <b> {c} (d)", "[see note] a <b> {c} (d)"),
        ("C++ and AT&T, 3 < 4", "C++ and AT&T, 3 < 4"),
        ("[noise]", "[noise]"),
    ],
)
def test_marks_of_sounds_are_no_part_of_a_reference(text: str, words: str) -> None:
    assert scoring.unmarked(text) == words
    assert scoring.unmarked(words) == words


def test_no_error_rate_against_a_reference_without_words() -> None:
    row: Any = {"raw_text": "hello", "language": "en", "scoring": None, "reference": None}
    counted = scoring.scored(row, "hello", "en")
    none = scoring.scored(row, "[inaudible]", "en")
    assert (counted["words"], none["words"], none["word_errors"]) == (1, None, None)
    assert scoring.scored(none, "[inaudible]", "en") is none


# Lists that trainers read: conversations about one audio, SpeechBrain's, and tables of Excel.


TEXTS = ["the first text", "a second one", "and a third"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lists")
    (home / "wav").mkdir()
    for number in range(len(TEXTS)):
        sf.write(home / f"wav/{number}.wav", corpus.speech(number + 1, 0.5, 16000), 16000)
    return home


def entries(path: Path) -> list[tuple[str, str | None, str | None]]:
    """(path, text, speaker) of each recording of a list, as `--source` reads it; of a line that
    cannot be used, what is wrong with it in place of the text."""
    job = settings.read(None, [str(path)], str(path.parent / "out"), ()).job()
    [dataset] = plugins.datasets(job.sources)
    listed = [*dataset.source.recordings(dataset.settings)]
    return [
        (r.path, r.error[1] if r.error else r.text, r.speaker)
        for r in listed
        if isinstance(r, Recording)
    ]


def written(folder: Path, name: str, lines: list[object], whole: bool) -> Path:
    path = folder / name
    path.write_text(json.dumps(lines) if whole else "\n".join(map(json.dumps, lines)))
    return path


def swift(number: int, *more: str) -> dict[str, object]:
    said = {"role": "assistant", "content": TEXTS[number]}
    return {
        "messages": [{"role": "user", "content": "<audio>Write it down."}, said],
        "audios": [f"wav/{number}.wav", *more],
    }


def share_gpt(number: int) -> dict[str, object]:
    said = {"from": "gpt", "value": TEXTS[number]}
    return {
        "conversations": [{"from": "human", "value": "<audio>Write it down."}, said],
        "audios": [f"wav/{number}.wav"],
    }


def qwen(number: int) -> dict[str, object]:
    asked = [{"type": "audio", "audio_url": f"wav/{number}.wav"}, {"type": "text", "text": "?"}]
    said = {"role": "assistant", "content": TEXTS[number]}
    return {"messages": [{"role": "user", "content": asked}, said]}


@pytest.mark.parametrize("entry", [swift, share_gpt, qwen])
@pytest.mark.parametrize("whole", [True, False])
def test_a_conversation_about_one_audio_is_its_text(
    folder: Path, entry: Callable[[int], dict[str, object]], whole: bool
) -> None:
    lines: list[object] = [entry(number) for number in range(len(TEXTS))]
    ending = "json" if whole else "jsonl"
    path = written(folder, f"list.{ending}", lines, whole)
    assert entries(path) == [(f"wav/{n}.wav", text, None) for n, text in enumerate(TEXTS)]


@pytest.mark.parametrize("kind", ["jsonl", "table"])
def test_what_follows_a_list_is_not_lost_in_silence(folder: Path, kind: str) -> None:
    lines = [json.dumps([{"audio": f"wav/{n}.wav", "text": TEXTS[n]}]) for n in range(2)]
    path = folder / "lists.json"
    path.write_text("\n".join(lines))
    module, chosen = plugins.resolve_source(Source(kind=kind, path=str(path)))
    listed = [r for r in module.recordings(chosen) if isinstance(r, Recording)]
    assert [r.path for r in listed] == ["wav/0.wav", "lists.json:2"]
    assert "what follows" in (listed[1].error or ("", ""))[1]


def test_which_of_two_audios_a_text_belongs_to_is_not_guessed(folder: Path) -> None:
    lines: list[object] = [swift(0), swift(1, "wav/2.wav")]
    rows = entries(written(folder, "two.jsonl", lines, whole=False))
    assert ("wav/0.wav", TEXTS[0], None) in rows
    [(_, wrong, _)] = [row for row in rows if row[0] != "wav/0.wav"]
    assert "2 audios and 1 answers" in (wrong or "")


def test_speechbrains_json_and_csv(folder: Path) -> None:
    home = folder / "speechbrain"
    home.mkdir()
    utterances = {
        f"utt{n}": {
            "wav": f"{{data_root}}/wav/{n}.wav",
            "length": 1.0,
            "words": text,
            "spk_id": "s",
        }
        for n, text in enumerate(TEXTS)
    }
    (home / "train.json").write_text(json.dumps(utterances, indent=1))
    expected = [(text, "s") for text in TEXTS]
    assert [row[1:] for row in entries(home / "train.json")] == expected  # audio a folder above
    rows = [f"u{n},1.0,$data_root/wav/{n}.wav,s,{text}" for n, text in enumerate(TEXTS)]
    (folder / "train.csv").write_text("\n".join(["ID,duration,wav,spk_id,wrd", *rows]))
    assert [row[1:] for row in entries(folder / "train.csv")] == expected


def test_times_in_samples_are_refused(folder: Path) -> None:
    part = {"file": "wav/0.wav", "start": 0, "stop": 8000}
    (folder / "parts.json").write_text(json.dumps({"a": {"wav": part, "words": "one"}}))
    with pytest.raises(ConfigError, match=r"no entry can be read: .*count samples"):
        entries(folder / "parts.json")


@pytest.mark.parametrize("mark", ["sep=;", '"sep=;"', "SEP=;"])
def test_excel_names_the_separator_in_the_first_line(folder: Path, mark: str) -> None:
    rows = [f"wav/{n}.wav;{text};s" for n, text in enumerate(TEXTS)]
    (folder / "excel.csv").write_text("\r\n".join([mark, "file;text;speaker", *rows]))
    expected = [(f"wav/{n}.wav", text, "s") for n, text in enumerate(TEXTS)]
    assert entries(folder / "excel.csv") == expected


def test_an_answer_in_parts_and_ms_swifts_response(folder: Path) -> None:
    parted = qwen(0)
    parted["messages"][1]["content"] = [{"type": "text", "text": TEXTS[0]}]  # type: ignore[index]
    answered = {"query": "<audio>?", "response": TEXTS[1], "audios": ["wav/1.wav"]}
    for number, entry in enumerate((parted, answered)):
        path = written(folder, f"{number}.jsonl", [entry], whole=False)
        assert entries(path) == [(f"wav/{number}.wav", TEXTS[number], None)]


def test_a_folder_names_lists_of_trainers(folder: Path) -> None:
    utterances = {f"utt{n}": {"wav": f"wav/{n}.wav", "words": text} for n, text in enumerate(TEXTS)}
    (folder / "train.json").write_text(json.dumps(utterances))
    module, settings = plugins.resolve_source(Source(kind="folder", path=str(folder)))
    note = next(note for note in module.notes(settings) if note.startswith("train.json"))
    assert "train.json names recordings and is not read; `--source" in note
