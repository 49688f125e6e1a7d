"""Texts beside recordings through whole runs: clips, outcomes, what people are told, and S3."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, films
from tests.helpers.s3_server import BUCKET, S3
from uttermill.tasks import pipeline
from uttermill.tasks.base.environment import setting
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Ignored
from uttermill.tasks.runs.executor import Executor, Published
from uttermill.tasks.settings import Source
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.stages import shard
from uttermill.tasks.storage import urls

AUTO = {"segmenter": {"use": "auto"}, "filters": corpus.FILTERS}
SRT = "1\n00:00:00,200 --> 00:00:01,000\n{}\n\n2\n00:00:01,000 --> 00:00:09,000\nbeyond\n"


def source(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [{"kind": "folder", "path": str(path), "name": "c", "expect_broken": True, **options}]


def utterances(published: Published) -> list[dict[str, Any]]:
    table = pq.read_table(published.path / "utterances.parquet")
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: str(row["source_path"]))


def make(folder: Path) -> None:
    corpus.add(folder, 3, name="anna/plain.wav")
    (folder / "anna/plain.txt").write_text("Said by a person.\n")
    corpus.add(folder, 4, name="anna/timed.wav")
    (folder / "anna/timed.srt").write_text(SRT.format("BOB: With times."))
    corpus.add(folder, 5, name="lone.wav")
    corpus.add(folder, 6, name="unheard.wav")
    (folder / "unheard.txt").write_text("[inaudible]")
    corpus.add(folder, 7, name="odd.wav")
    (folder / "odd.txt").write_bytes("Привет".encode("cp1251"))


def test_a_run_over_a_folder_with_texts(tmp_path: Path) -> None:
    make(tmp_path / "in")
    sources = source(tmp_path / "in", speaker="parent_folder")
    published, _ = corpus.run(corpus.job(tmp_path, sources=sources, filter=AUTO))
    found = [
        (Path(r["source_path"]).name, r["start"], r["end"], r["text_source"], r["speaker"])
        for r in utterances(published)
    ]
    assert found == [
        ("plain.wav", 0.0, corpus.seconds_of(3), "reference", "anna"),
        ("timed.wav", 0.2, 1.0, "reference", "BOB"),
        ("lone.wav", 0.0, corpus.seconds_of(5), "asr", None),
    ]  # fmt: skip
    assert [r["text"] for r in utterances(published)][:2] == ["Said by a person.", "With times."]
    reasons = published.summary["reasons"]
    assert reasons["shard.bad_text"]["items"] == 1
    assert reasons["filter.segment_outside_audio"]["items"] == 1
    assert reasons["transcribe.no_words_in_reference"]["items"] == 1


def test_all_cues_beyond_the_end_fail_as_that(tmp_path: Path) -> None:
    """None is a duplicate of another, although they hold the same samples: none."""
    corpus.add(tmp_path / "in", 4, name="a.wav")
    cue = "{0}\n00:00:{1},000 --> 00:00:{2},000\n{3}\n\n"
    cues = [(1, "00", "01", "inside"), (2, "20", "21", "beyond"), (3, "30", "31", "far beyond")]
    (tmp_path / "in/a.srt").write_text("".join(cue.format(*one) for one in cues))
    published, _ = corpus.run(corpus.job(tmp_path, sources=source(tmp_path / "in"), filter=AUTO))
    items = {name: count["items"] for name, count in published.summary["reasons"].items()}
    assert items["filter.segment_outside_audio"] == 2
    assert "filter.duplicate_segment" not in items


def test_words_beyond_the_end_are_not_packaged_with_the_others(tmp_path: Path) -> None:
    """The text of a word list is of the whole recording, and would say more than its audio."""
    end = corpus.seconds_of(3)
    corpus.add(tmp_path / "in", 3, name="a.wav")
    corpus.add(tmp_path / "in", 3, seed=1, name="b.wav")
    for name, last in (("a", end + 1), ("b", end - 0.1)):
        (tmp_path / f"in/{name}.ctm").write_text(f"{name} 1 0.1 0.2 one\n{name} 1 {last} 0.5 two\n")
    job = corpus.job(tmp_path, sources=source(tmp_path / "in"), filter=AUTO)
    published, _ = corpus.run(job)
    assert [(r["source_id"], r["text"]) for r in utterances(published)] == [(None, "one two")]
    reasons = published.summary["reasons"]
    assert reasons["filter.segment_outside_audio"]["items"] == 1


@pytest.mark.full
def test_a_folder_without_texts_stays_as_it_was(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    corpus.run(corpus.job(tmp_path, sources=source(tmp_path / "in")))
    sources = source(tmp_path / "in", texts="auto", speaker="none")
    again, counts = corpus.run(corpus.job(tmp_path, sources=sources))
    assert not again.new
    assert all(computed == 0 for computed, _ in counts.values())


def test_what_sources_state_is_told(tmp_path: Path) -> None:
    make(tmp_path / "in")
    pattern = {"pattern": "^(?P<speaker>[^/]+)/"}
    job = corpus.job(tmp_path, sources=source(tmp_path / "in", speaker=pattern))
    (tmp_path / "scratch").mkdir()
    found = shard.survey(job, Index(job.out), tmp_path / "scratch")
    assert found.stated == [
        "1 of 4 recordings of the source 'c' has no text: lone.wav",
        "Speakers of 2 of 4 recordings of the source 'c' are named: "
        "anna/plain.wav → anna, anna/timed.wav → anna, lone.wav → nobody, unheard.wav → nobody",
    ]
    left = {Path(each.source_path).name: (each.reason, each.detail) for each in found.left}
    assert left["plain.txt"] == ("read_as_text", "txt in utf-8")
    assert left["timed.srt"] == ("read_as_text", "srt in utf-8: 2 segments")
    assert left["odd.txt"][0] == "bad_text"


def test_texts_in_a_language_are_named_with_what_reads_them(tmp_path: Path) -> None:
    """As downloaders name them: without the sentence, a folder of them looks as if it had none."""
    for number, name in enumerate("ab"):
        corpus.add(tmp_path / "in", number, name=f"{name}.wav")
        (tmp_path / f"in/{name}.en.vtt").write_text("WEBVTT\n\n00:00.000 --> 00:01.000\nwords\n")
    (tmp_path / "in/a.de.srt").write_text("")
    path = f"{tmp_path}/in/a"
    assert planning.plan(corpus.job(tmp_path, sources=source(tmp_path / "in")), None).stated == [
        "1 of 2 recordings of the source 'c' has no text: a.wav",
        f"1 text is not read, such as {path}.de.srt: `texts: {{ext: de.srt}}` reads it",
        f"1 text is not read, such as {path}.en.vtt: `texts: {{ext: en.vtt}}` reads it",
    ]


@pytest.mark.nightly
def test_broken_recordings_count_nowhere(tmp_path: Path) -> None:
    """A broken file has no text and no speaker that would be missed: before the first run, at its
    end, and after it."""
    make(tmp_path / "in")
    broken = tmp_path / "in/aaa.wav"
    broken.write_bytes(b"this is no audio")
    pattern = {"pattern": "^(?P<speaker>[^/]+)/"}
    job = corpus.job(
        tmp_path, sources=source(tmp_path / "in", speaker=pattern), package={"splits": {"dev": 0.3}}
    )
    says = [
        "1 of 4 recordings of the source 'c' has no text: lone.wav",
        "Speakers of 2 of 4 recordings of the source 'c' are named: "
        "anna/plain.wav → anna, anna/timed.wav → anna, lone.wav → nobody, unheard.wav → nobody",
    ]
    first = planning.plan(job, None).stated
    assert first[:2] == says
    assert first[2].startswith("Speakers of 2 of 4 recordings in 'c' are unknown")
    (tmp_path / "scratch").mkdir()
    assert pipeline.run_shard_stage(job, Executor(), tmp_path / "scratch").stated == says
    assert planning.plan(job, job).stated == first
    corpus.add(tmp_path / "in", 8, name="aaa.wav")
    renewed = planning.plan(job, job).stated
    assert renewed[0] == "2 of 5 recordings of the source 'c' have no text: aaa.wav, lone.wav"
    assert "3 of 5" in renewed[2]


@pytest.mark.full
def test_nemo_reads_as_long_as_the_manifest_says(tmp_path: Path) -> None:
    for number in (4, 5):
        corpus.add(tmp_path / "in", number)
    whole = corpus.seconds_of(4)
    rows = [
        {"audio_filepath": "r04.wav", "duration": round(whole - 0.01, 2), "text": "all of it"},
        {"audio_filepath": "r05.wav", "duration": 0.8, "text": "the first part"},
    ]
    listed = tmp_path / "in/m.json"
    listed.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    sources = [{"kind": "jsonl", "path": str(listed), "name": "c"}]
    published, _ = corpus.run(corpus.job(tmp_path, sources=sources))
    assert [r["text_source"] for r in utterances(published)] == ["reference", "asr"], "all whole"
    published, _ = corpus.run(corpus.job(tmp_path, sources=sources, filter=AUTO))
    assert [(r["start"], r["end"], r["text"]) for r in utterances(published)] == [
        (0.0, whole, "all of it"), (0.0, 0.8, "the first part")
    ]  # fmt: skip
    rest = corpus.seconds_of(5) - 0.8
    seconds = published.summary["reasons"]["filter.outside_segments"]["seconds"]
    assert seconds == pytest.approx(rest, abs=0.001)


@pytest.mark.full
@pytest.mark.parametrize("backend", ["none", "fake"])
def test_references_without_words_are_dropped_from_lists_too(tmp_path: Path, backend: str) -> None:
    corpus.make(tmp_path / "in", 6)
    odd = {"r00": "[inaudible]", "r01": "...", "r02": "<UNK>", "r03": "!SIL &-um", "r04": "spn"}
    odd["r05"] = "reference ++breath++ number {laugh} 5"
    corpus.listed(tmp_path / "in", 6, tmp_path / "list.jsonl", **odd)
    sources = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
    asr = {"backend": {"use": backend}}
    published, _ = corpus.run(corpus.job(tmp_path, sources=sources, transcribe=asr))
    assert [r["text"] for r in utterances(published)] == ["reference number 5"]
    assert published.summary["reasons"]["transcribe.no_words_in_reference"]["items"] == 5
    if backend == "fake":
        heard = {**asr, "text": "asr"}
        published, _ = corpus.run(corpus.job(tmp_path, sources=sources, transcribe=heard))
        rows = utterances(published)
        assert {r["text_source"] for r in rows} == {"asr"}
        assert [r["words"] for r in rows] == [None, None, None, None, None, 3]


@pytest.fixture
def account(s3: S3) -> Iterator[None]:
    with setting(s3.environment):
        yield
    urls.close_all()


@pytest.mark.full
def test_a_bucket_gives_the_texts_that_a_folder_gives(
    s3: S3, account: None, tmp_path: Path
) -> None:
    make(tmp_path / "in")
    for number in range(40):
        (tmp_path / f"in/many/{number}.wav").parent.mkdir(exist_ok=True)
        (tmp_path / f"in/many/{number}.wav").write_bytes(b"x")
        (tmp_path / f"in/many/{number}.txt").write_text(f"text {number}")
    url = f"s3://{BUCKET}/texts-beside"
    s3.upload(tmp_path / "in", url)

    def said(path: str) -> list[tuple[Any, ...]]:
        module, settings = resolve_source(Source(kind="folder", path=path))
        return [
            (item.path, item.reason, item.detail)
            if isinstance(item, Ignored)
            else (item.path, item.text, item.segments, item.error)
            for item in module.recordings(settings)
        ]

    here, there = said(str(tmp_path / "in")), said(url)
    assert there == here
    assert ("many/7.wav", "text 7", None, None) in there
    alone = said(f"{url}/anna/plain.wav")
    assert alone == [
        ("plain.wav", "Said by a person.", None, None),
        ("plain.txt", "read_as_text", "txt in utf-8"),
    ]


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        ("ALL IN CAPITALS", {}, True),
        ("in small letters", {}, True),
        ("As one writes.", {}, False),
        ("没有大小写", {}, False),
        ("ALL IN CAPITALS", {"package": {"text_form": "normalised"}}, False),
        ("ALL IN CAPITALS", {"transcribe": {"backend": {"use": "none"}}}, False),
        ("ALL IN CAPITALS", {"transcribe": {"text": "asr"}}, False),
    ],
)
def test_texts_of_two_kinds_are_told(
    tmp_path: Path, text: str, settings: dict[str, Any], told: bool
) -> None:
    """Capitals of a list and sentences of a recogniser were packaged side by side, without a
    word."""
    for number in (3, 4):
        corpus.add(tmp_path / "in", number, name=f"{number}.wav").with_suffix(".txt").write_text(
            text
        )
    corpus.add(tmp_path / "in", 5, name="lone.wav")
    job = corpus.job(tmp_path, sources=source(tmp_path / "in"), **settings)
    (tmp_path / "scratch").mkdir()
    stated = shard.survey(job, Index(job.out), tmp_path / "scratch").stated
    assert any("package.text_form=normalised" in sentence for sentence in stated) is told


@pytest.mark.full
def test_subtitles_count_from_the_film_s_start_and_other_times_from_the_audio_s(
    tmp_path: Path,
) -> None:
    home = tmp_path / "in"
    home.mkdir()
    for name in ("a", "b"):
        films.made(home / f"{name}.mkv", late=3.0)
    cues = ((0.5, 1.5, "too early"), (4.0, 6.0, "some words"))
    lines = [f"00:00:{a:06.3f} --> 00:00:{b:06.3f}\n{text}\n\n" for a, b, text in cues]
    (home / "a.srt").write_text("".join(lines))
    (home / "b.txt").write_text("1.0\t3.0\tsome words\n")
    published, _ = corpus.run(corpus.job(tmp_path, sources=source(home), filter=AUTO))
    rows = utterances(published)
    assert [(r["start"], r["end"], r["text"]) for r in rows] == [(1.0, 3.0, "some words")] * 2
    assert [r["start_seconds"] for r in rows] == [4.0, 4.0]
    reasons = published.summary["reasons"]
    assert reasons["filter.segment_outside_audio"]["items"] == 1
