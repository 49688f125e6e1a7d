"""The clips of a report are the worst and the borderline ones, whole, within its size."""

import base64
import html
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.insight.test_report import Page, recorded, spans_of
from uttermill.flows.run import report
from uttermill.tasks import audio
from uttermill.tasks.base.schema import LEDGER
from uttermill.tasks.insight import report as making
from uttermill.tasks.insight.report import choice, clip_table, clips, measure_charts, number_words
from uttermill.tasks.insight.report.choice import Why
from uttermill.tasks.insight.report.spans import Spans
from uttermill.tasks.publish.corpus import limits
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings.job import Job

Chosen = dict[int, list[Why]]  # by row of the ledger

TEXT = "a text that is longer than six hundred characters " * 20


class Hundred(NamedTuple):
    """Rows of a ledger, and the table of the outcomes of its utterances."""

    rows: list[dict[str, Any]]
    job: Job
    told: pa.Table

    def spans(self, told: pa.Table | None = None) -> Spans:
        told = self.told if told is None else told
        return Spans(self.job, told.schema, [told], [table(self.rows)])

    def chosen(self, told: list[dict[str, Any]] | None = None, **more: pa.DataType) -> Chosen:
        """`told`: other outcomes, with `more` columns."""
        schema = pa.schema([*self.told.schema, *more.items()])
        changed = None if told is None else pa.Table.from_pylist(told, schema=schema)
        return choice.chosen_rows(self.spans(changed), 0)

    def ids(self, chosen: Chosen, group: str, kind: str) -> dict[str, Why]:
        return {
            self.rows[row]["utterance"]: why
            for row, whys in chosen.items()
            for why in whys
            if (why.group, why.kind) == (group, kind)
        }


def choose(rows: list[dict[str, Any]], seed: int = 0) -> Chosen:
    """Of rows without utterances."""
    job = corpus.job(Path("nowhere"))
    return choice.chosen_rows(Spans(job, limits.outcomes_schema(job), [], [table(rows)]), seed)


def ledger_row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "recording": f"d/{number}",
        "source_path": f"/x/{number}",
        "dataset": "d",
        "utterance": f"u{number}",
        "start": 0.0,
        "end": 1.0,
        "samples": 16000,
        "seconds": 1.0,
        "overlap_samples": 0,
        "sample_rate": 16000,
        "outcome": "dropped",
        "stage": "filter",
        "reason": "noisy",
        **changes,
    }


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=LEDGER)


def rows_of(chosen: Chosen, group: str, kind: str) -> list[int]:
    return [
        row
        for row, whys in chosen.items()
        if any((why.group, why.kind) == (group, kind) for why in whys)
    ]


def test_the_worst_and_the_nearest_of_five_hundred() -> None:
    value = np.random.default_rng(1).permutation(np.linspace(-3.0, 9.9, 500))
    found = choose([ledger_row(n, value=float(v), threshold=10.0) for n, v in enumerate(value)])
    order = np.argsort(value).tolist()
    assert rows_of(found, "filter.noisy", "worst") == order[:4]
    assert rows_of(found, "filter.noisy", "just beyond") == [order[-1], order[-2]]
    (why,) = found[order[0]]
    assert (why.value, why.limit, why.side) == (-3.0, 10.0, "min")
    uniform = np.random.default_rng([0, 0]).choice(500, 8, replace=False)
    assert order[0] not in uniform  # what was drawn before would have missed it


def test_a_reason_of_several_limits_ranks_by_share() -> None:
    """0.1 below a limit of 0.2 is worse than 3 beyond one of 30."""
    rows = [ledger_row(n, value=33.0 - n / 100, threshold=30.0) for n in range(20)]
    rows.append(ledger_row(99, value=0.1, threshold=0.2))
    rows.append(ledger_row(98))  # no value: never the worst
    found = choose(rows)
    assert rows_of(found, "filter.noisy", "worst") == [20, 0, 1, 2]
    assert 21 not in found


def test_without_a_limit_the_longest_and_some_by_chance() -> None:
    rows = [
        ledger_row(n, outcome="non_speech", reason="non_speech", utterance=None, end=1.0 + n % 37)
        for n in range(200)
    ]
    found = choose(rows, 3)
    longest = rows_of(found, "filter.non_speech", "longest")
    assert [rows[row]["end"] for row in longest] == [37.0, 37.0, 37.0, 37.0]
    assert len(rows_of(found, "filter.non_speech", "by chance")) == 4
    assert found == choose(rows, 3)
    assert found != choose(rows, 4)


def test_few_are_all_shown_once() -> None:
    found = choose([ledger_row(n, value=float(n), threshold=10.0) for n in range(3)])
    assert list(found) == [0, 1, 2]
    assert all(len(whys) == 1 for whys in found.values())


@pytest.fixture
def hundred(tmp_path: Path) -> Hundred:
    """100 packaged utterances and 20 that the least duration of 0.7 s drops; their outcomes."""
    draw = np.random.default_rng(5)
    rows, told = [], []
    for number in range(120):
        kept = number >= 20
        seconds = 0.75 + number / 20 if kept else 0.1 + number / 40
        limit = {} if kept else {"value": seconds, "threshold": 0.7, "reason": "too_short"}
        place = {"outcome": "packaged", "stage": "package", "reason": "packaged"} if kept else {}
        rows.append(ledger_row(number, end=seconds, **{**place, **limit}))
        told.append(
            {
                "id": f"u{number}",
                "dataset": "d",
                "recording": f"d/{number}",
                "seconds": seconds,
                "outcome": "packaged" if kept else "dropped",
                "heard": kept,
                "duration": seconds,
                "stage": "package" if kept else "filter",
                "reason": rows[-1]["reason"],
                "avg_logprob": float(draw.uniform(-0.5, -0.1)) if kept else None,
                "language_probability": 0.99 if kept else None,
                "speech_after_text": 0.0,
                "wer": None,
                "silence_fraction": 0.1,
                "clipping_fraction": 0.0,
                "text_chars": 9.0,
            }
        )
    told[50]["avg_logprob"] = -0.9
    told[51]["language_probability"] = 0.81
    told[52]["speech_after_text"] = 4.5
    told[53]["wer"], told[54]["wer"] = 0.55, 0.0
    told[55]["silence_fraction"] = 0.94
    verdicts = [{"use": "logprob"}, {"use": "language"}]
    job = corpus.job(
        tmp_path,
        filter=corpus.filters(min=0.7, max=30),
        transcribe={"backend": {"use": "fake"}, "verdicts": verdicts},
    )
    schema = limits.outcomes_schema(job).append(pa.field("speech_after_text", pa.float64()))
    extra = [name for name in told[0] if name not in schema.names]
    for name in extra:
        schema = schema.append(pa.field(name, pa.float64()))
    unique = pa.schema({field.name: field.type for field in schema})
    told_table = pa.Table.from_pylist(told, schema=unique)
    order = draw.permutation(len(rows))  # the ledger has an order of its own
    return Hundred([rows[n] for n in order], job, told_table)


def test_packaged_ones_are_the_least_certain(hundred: Hundred) -> None:
    found = hundred.chosen()
    doubt = hundred.ids(found, "packaged", "least certain")
    assert {"u50", "u51", "u52", "u53"} <= set(doubt)
    assert (doubt["u50"].measure, doubt["u50"].limit) == ("avg_logprob", -1.0)
    assert (doubt["u52"].measure, doubt["u52"].value) == ("speech_after_text", 4.5)
    assert "u54" not in doubt  # no error at all is no doubt
    near = hundred.ids(found, "packaged", "near a limit")
    assert near["u51"].measure == "language_probability"
    assert 30.0 not in {why.limit for why in near.values()}, "the longest has 6.7 s"
    inside = hundred.ids(found, "filter.too_short", "just inside")
    assert set(inside) == {"u20", "u21"}  # 1.75 and 1.8 s, the shortest that were kept
    assert inside["u20"].limit == 0.7
    beyond = hundred.ids(found, "filter.too_short", "just beyond")
    assert set(beyond) == {"u19", "u18"}
    assert set(hundred.ids(found, "filter.too_short", "worst")) == {"u0", "u1", "u2", "u3"}
    assert len({row for row in found if any(w.group == "packaged" for w in found[row])}) >= 8


def test_a_rule_may_be_named_twice(hundred: Hundred) -> None:
    spans = hundred.spans()
    transcribe = spans.job.transcribe
    [first, *others] = transcribe.verdicts
    twice = transcribe.model_copy(update={"verdicts": (first, *others, first)})
    both = hundred._replace(job=replace(spans.job, transcribe=twice)).spans()
    assert measure_charts.kept_now(both) == measure_charts.kept_now(spans)
    [once], [one, other] = (
        measure_charts.sliders(one, "avg_logprob", -1, 0) for one in (spans, both)
    )
    assert one == other
    assert one["items"][one["at"]] == once["items"][once["at"]]


def test_no_slider_drops_what_a_person_keeps(hundred: Hundred) -> None:
    rows = hundred.told.to_pylist()
    rows[0].update(outcome="packaged", stage="package", reason="packaged", spared=True)
    spans = hundred.spans(pa.Table.from_pylist(rows, schema=hundred.told.schema))
    lower, _ = measure_charts.sliders(spans, "duration", 0.0, 10.0)
    assert lower["items"][lower["at"]] == measure_charts.kept_now(spans)["items"] == 101


def test_music_and_applause_come_first(hundred: Hundred) -> None:
    rows = hundred.told.to_pylist()
    for row in rows:
        row.update(sounds_music=0.0, sounds_applause=None)
    rows[60]["sounds_music"], rows[61]["sounds_music"] = 0.9, 0.04
    rows[62].update(sounds_music=0.2, sounds_applause=0.6)
    rows[3]["sounds_applause"] = 1.0  # too short, and dropped
    found = hundred.chosen(rows, sounds_music=pa.float64(), sounds_applause=pa.float64())
    packaged = [row for row, whys in found.items() if whys[0].group == "packaged"]
    assert [hundred.rows[row]["utterance"] for row in packaged[:2]] == ["u60", "u62"]
    whys = hundred.ids(found, "packaged", "music or applause").values()
    assert [(why.measure, why.value) for why in whys] == [
        ("sounds_music", 0.9), ("sounds_applause", 0.6)
    ]  # fmt: skip
    doubt = hundred.ids(found, "packaged", "least certain")
    assert doubt, "and there is room for the others"


def test_wrong_languages_are_shown_where_they_are_least_certain(hundred: Hundred) -> None:
    """A reason without a limit, of clips that were heard."""
    told = hundred.told.to_pylist()
    lost = {"outcome": "dropped", "stage": "transcribe", "reason": "wrong_language"}
    for number in range(40, 100):
        told[number].update(lost)
    for row in hundred.rows:
        if 40 <= int(row["utterance"][1:]) < 100:
            row.update(lost)
    found = hundred.chosen(told)
    group = "transcribe.wrong_language"
    assert set(hundred.ids(found, group, "longest")) == {"u99", "u98", "u97", "u96"}
    assert set(hundred.ids(found, group, "least certain")) == {"u50", "u51", "u52", "u53"}
    assert not hundred.ids(found, group, "by chance")


def test_no_more_than_a_page_holds() -> None:
    rows = [
        ledger_row(n, value=float(n), threshold=1e6, reason=f"r{n % 30:02d}") for n in range(900)
    ]
    found = choose(rows)
    assert 60 <= len(found) <= choice.IN_ALL
    assert {rows[row]["reason"] for row in found} == {f"r{n:02d}" for n in range(30)}
    assert {0, 1, 29} <= set(found)  # the worst of each


def job_of(tmp: Path, **changes: Any) -> Job:
    source = {"kind": "jsonl", "path": str(tmp / "list.jsonl"), "name": "c"}
    return corpus.job(tmp, sources=[source], **changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    """60 recordings that are too short, one of them far worse than all; some just long enough; one
    of 20 s with a long text."""
    tmp = tmp_path_factory.mktemp("choice")
    (tmp / "in").mkdir()
    lengths = [0.5 + 0.001 * n for n in range(60)] + [0.61, 0.65, 0.9, 1.1, 20.0]
    lengths[37] = 0.05
    lines = []
    for number, seconds in enumerate(lengths):
        path = tmp / "in" / f"r{number:02d}.wav"
        sf.write(path, corpus.speech(number, seconds, 16000), 16000, "PCM_16")
        text = TEXT if seconds == 20 else f"reference number {number}"
        lines.append(json.dumps({"wav": str(path), "key": f"k{number}", "txt": text}) + "\n")
    (tmp / "list.jsonl").write_text("".join(lines))
    job = job_of(tmp, filter=corpus.filters(min=0.6))
    return job, recorded(job)


@pytest.fixture(scope="module")
def page(made: tuple[Job, Path]) -> str:
    job, folder = made
    return report.page(job, folder).decode()


@pytest.mark.nightly
def test_the_worst_of_a_run_is_on_its_page_and_first(page: str) -> None:
    options = {o.get("value"): o for o in Page(page).all("option") if o.get("data-rows")}
    places = json.loads(str(options["filter.too_short"]["data-rows"]))
    cells = re.findall(r"<tr data-reason.*?</tr>", page, re.DOTALL)
    first = html.unescape(cells[places[0]])
    assert "r37.wav" in first
    assert re.search(r"<b>worst</b>: duration 0.05 s, limit at least 0.6", first)
    told = [re.findall(r"<b>(.*?)</b>: (.*?)</li>", html.unescape(cells[at])) for at in places]
    kinds = [kind for labels in told for kind, words in labels]
    assert kinds.count("worst") == 4
    assert kinds.count("just beyond") == 2
    assert kinds.count("kept, just inside") == 2
    near = [words for labels in told for kind, words in labels if kind.startswith("just beyond")]
    assert near[0] == "duration 0.559 s, limit at least 0.6"
    inside = [words for labels in told for kind, words in labels if kind.startswith("kept, just")]
    assert min(inside) == "duration 0.61 s, limit at least 0.6 (filter.too_short)"


def heard(page: str) -> dict[str, tuple[float, float]]:
    """(seconds in the player, seconds of the span) of each row by the name of its file."""
    found = {}
    for row in re.findall(r"<tr data-reason.*?</tr>", page, re.DOTALL):
        name = re.search(r"(r\d\d)\.wav", row)
        span = re.search(r"([\d.]+)–([\d.]+) s", row)
        data = re.search(r"data:audio/mpeg;base64,([^\"]+)", row)
        if name and span and data:
            pcm, rate = audio.decode_int16(base64.b64decode(html.unescape(data[1])))
            found[name[1]] = len(pcm) / rate, float(span[2]) - float(span[1])
    return found


@pytest.mark.full
def test_players_hold_whole_clips_and_rows_whole_texts(page: str) -> None:
    players = heard(page)
    assert len(players) >= 10
    for inside, span in players.values():
        assert inside == pytest.approx(span, abs=0.01)
    assert players["r64"][0] == pytest.approx(20.0, abs=0.01)
    assert TEXT.strip() in html.unescape(page)
    assert "left out" not in page


@pytest.mark.nightly
def test_what_is_left_out_is_counted_and_named(
    made: tuple[Job, Path], page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = len(page.encode()) - 60_000  # the clip of 20 s alone takes 80 kB
    monkeypatch.setattr(making, "build", partial(making.build, limit=limit))
    small = report.page(*made)
    assert len(small) < limit
    text = small.decode()
    rows = re.findall(r"<tr data-reason.*?</tr>", text, re.DOTALL)
    silent = [row for row in rows if number_words.NO_ROOM in row]
    assert silent
    assert len(heard(text)) == len(rows) - len(silent)
    verb = "is" if len(silent) == 1 else "are"
    assert f"<strong>{len(silent)} of {len(rows)} clips {verb} left out</strong>" in text
    place = re.compile(r"r\d\d\.wav</bdi> · <span class=.time.>[\d.]+–[\d.]+ s")
    assert all(place.search(row) for row in silent)
    assert report.page(*made) == small


def test_one_long_clip_takes_no_room_from_the_others(
    made: tuple[Job, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _ = made
    found = clips.choose(spans_of(job), 0)
    clips.look_up(job, found)
    monkeypatch.setattr(clip_table, "LARGEST", 10_000)
    monkeypatch.setattr(clip_table, "LEAST", 10.0)
    left_out = clip_table.embed(job.out, found, 4_000_000)
    for sample in found:
        assert (sample.media.audio is None) == (sample.seconds > 10), sample.media.why
    assert left_out == sum(sample.seconds > 10 for sample in found) > 0


def test_what_lies_too_far_into_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A format that cannot seek is decoded up to a bound; what ends before it is heard."""
    pcm = (corpus.speech(1, 5.0, clips.RATE)[:, 0] * 20000).astype(np.int16)
    path = tmp_path / "x.mp3"
    path.write_bytes(audio.write_mp3_bytes(pcm, clips.RATE))
    found = []
    for start, end in ((3.0, 4.5), (0.5, 1.5)):
        row: Any = {"start": start, "end": end, "sample_rate": clips.RATE, "outcome": "dropped"}
        found.append(clips.Sample(row, locator=Locator(str(path))))
    monkeypatch.setattr(clips, "SEARCH", 2.0)
    clips.make(tmp_path, found)
    far, near = (sample.media for sample in found)
    assert (far.audio, far.why) == (None, clips.TOO_FAR)
    assert near.seconds == pytest.approx(1.0)


def test_labels_are_words() -> None:
    row: Any = {"outcome": "packaged", "start": 0.0, "end": 12.5}
    sample = clips.Sample(row)
    about = {"avg_logprob": ("nats per token", ""), "wer": ("1", "")}

    def told(*facts: Any) -> str:
        return clip_table.limit_text(Why(*facts), sample, about)

    assert told("packaged", "least certain", "avg_logprob", -0.9, -1.0, "min") == (
        "avg_logprob -0.9 nats per token, limit at least -1"
    )
    assert told("packaged", "least certain", "wer", 0.5, None, "max") == "wer 0.5"
    assert told("filter.x", "worst", "", 3.0, 2.0, "max") == "value 3, limit at most 2 (filter.x)"
    assert told("packaged", "longest") == "12.5 s"
    assert told("packaged", "by chance") == ""
    assert set(clip_table.KINDS) == {
        *(f"differs most: {kind}" for kind in clip_table.DISAGREEMENTS),
        "worst",
        "just beyond",
        "just inside",
        "music or applause",
        "least certain",
        "near a limit",
        "longest",
        "by chance",
    }


def test_one_limit_is_told_once() -> None:
    near = Why("packaged", "near a limit", "snr", 12.5, 12.0, "min")
    inside = Why("filter.noisy", "just inside", "snr", 12.5, 12.0, "min")
    other = Why("packaged", "least certain", "wer", 0.5, None, "max")
    assert clip_table._once([other, near, inside]) == [inside, other]
