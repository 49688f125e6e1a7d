"""The report's numbers are those of dataset.json, its words are inert, its size is bounded."""

import json
import logging
import re
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

from tests.helpers import corpus, outcomes
from uttermill.flows import cli
from uttermill.flows.run import report, run_folder
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks.accounting import metrics
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.base.schema import LEDGER, METRICS
from uttermill.tasks.insight import report as making
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.insight.report import (
    choice,
    clips,
    measure_charts,
    number_words,
    page,
    worker_time,
)
from uttermill.tasks.insight.report.clips import Sample
from uttermill.tasks.insight.report.spans import Spans
from uttermill.tasks.publish import foreseen, reason_meanings
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings.job import Cost, Job
from uttermill.tasks.speech.fbank import triangles
from uttermill.tasks.storage import tables, versions

EVIL = "</script><img src=x onerror=alert(1)>\"' & שלום \u202e"
SECRET = "hunter2secret"


class Page(HTMLParser):
    """Elements and words of a page; what a browser would run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def work(shards: int = 6, workers: int = 2) -> pa.Table:
    """Metrics of that many shards, an hour each: three stages on some workers, one shard slow."""
    rows = []
    for number in range(shards):
        for at, stage in enumerate(("filter", "resample", "transcribe")):
            wall = 60.0 * (5 if number == 3 and stage == "filter" else 1)
            begin = 1e9 + 60.0 * (3 * (number // workers) + at)
            cost = Cost(f"cpu-{number % workers}", EVIL, 7, begin, wall, 50.0, 10**8, 4 * 10**8)
            place = metrics.Place(stage, shard=f"shard-{number:06d}", kind="CPU")
            rows.append(metrics.row(place, metrics.Trace(begin - 2.0, 1), cost, 3600.0, 9))
    return pa.Table.from_pylist(rows, schema=METRICS)


def recorded(job: Job) -> Path:
    """Run a job as the flow does, with a folder of its own under runs/; that folder."""
    stages = {name: getattr(job, name) for name in corpus.STAGES}
    settings = PrepareSettings(sources=job.sources, out=str(job.out), **stages)
    with run_folder.record(job.out, settings) as run:
        published, _ = corpus.run(job)
        ended = {"dataset": str(published.path), "stages": {}, "wall_seconds": 1.5}
        version = {"version": versions.number(published.path), "new_version": True}
        counts: dict[str, Any] = {
            name: {} for name in ("recordings", "utterances", "seconds", "reasons")
        }
        new = dict.fromkeys(("recordings", "packaged", "dropped", "failed"), 0)
        run.finish({**ended, **version, **counts, "new": new})
        metrics.save(work(), run.folder / metrics.NAME)
    return run.folder


def job_of(tmp: Path, **changes: Any) -> Job:
    source = {"kind": "jsonl", "path": str(tmp / "list.jsonl"), "name": "c",
              "expect_broken": True}  # fmt: skip
    return corpus.job(tmp, sources=[source], **changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    """Ten recordings: a silent one, an undecodable one, short ones, an evil text."""
    tmp = tmp_path_factory.mktemp("report")
    corpus.make(tmp / "in", 10)
    sf.write(tmp / "in" / "r08.wav", np.zeros(16000), 16000, "PCM_16")
    (tmp / "in" / "r09.wav").write_bytes(b"this is no audio")
    url = f"see https://u:{SECRET}@host/x"
    corpus.listed(tmp / "in", 10, tmp / "list.jsonl", r04=EVIL, r05=url)
    job = job_of(tmp, filter=corpus.filters({"use": "loudness"}, min=0.7))
    return job, recorded(job)


def spans_of(job: Job) -> Spans:
    told, path = outcomes.table(job), job.out / "datasets/latest/ledger.parquet"
    return Spans(job, told.schema, [told], tables.row_groups(path))


@pytest.fixture(scope="module")
def text(made: tuple[Job, Path]) -> str:
    job, folder = made
    return report.page(job, folder).decode()


def charts(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found
    return json.loads(found[1])


@pytest.mark.nightly
def test_its_hours_are_those_of_the_dataset(made: tuple[Job, Path], text: str) -> None:
    job, _ = made
    described = json.loads((job.out / "datasets/latest/dataset.json").read_text())
    seconds, reasons = described["seconds"], described["reasons"]
    steps = page.funnel(described, described["meanings"])
    assert {s["name"]: s["seconds"] for s in steps} == {
        name: entry["seconds"] for name, entry in reasons.items()
    }
    assert steps[-1]["after"] == pytest.approx(seconds["packaged"], abs=1e-6)
    shown = "".join(Page(text).words)
    for step in steps:
        assert number_words.length(step["seconds"]) in shown
    packaged, whole = (number_words.length(seconds[name]) for name in ("packaged", "in"))
    assert f"{packaged} of {whole} packaged" in shown
    assert charts(text)["now"]["hours"] == pytest.approx(seconds["packaged"] / 3600)
    assert charts(text)["now"]["items"] == described["utterances"]["packaged"]
    every = spans_of(job).hours_by("dataset")
    assert sum(row.hours for row in every) * 3600 == pytest.approx(seconds["in"])
    kept = sum(row.packaged_hours for row in every) * 3600
    assert kept == pytest.approx(seconds["packaged"])


def test_every_reason_leads_to_its_clips(made: tuple[Job, Path], text: str) -> None:
    job, _ = made
    described = json.loads((job.out / "datasets/latest/dataset.json").read_text())
    found = Page(text)
    rows = {row["data-reason"] for row in found.all("tr") if "data-reason" in row}
    links = {link["data-reason"] for link in found.all("a") if "data-reason" in link}
    assert rows == links == {*described["reasons"], "packaged"}
    assert "annotations" not in described
    assert 'id="labels"' not in text


def test_a_reason_names_each_limit_that_has_it(tmp_path: Path) -> None:
    """A limit of 0.5 on `wer` dropped clips, and the report named the one on characters, of 0.6."""
    verdicts = [{"use": "error_rate", "max_wer": 0.5}, {"use": "completeness"}]
    asked = corpus.job(tmp_path, transcribe={"backend": {"use": "fake"}, "verdicts": verdicts})
    reasons = ("high_error_rate", "text_incomplete", "non_speech")
    meanings = reason_meanings.meanings(asked, [f"transcribe.{reason}" for reason in reasons])
    limits_named = [re.sub(r" \([^)]*\)", "", words) for words in meanings.values()]
    assert limits_named == [
        "error_rate_spaced above 0.6 or error_rate_unspaced above 0.8 or wer above 0.5",
        "speech_after_text above 1 or speech_without_words above 1"
        " or words_per_speech_second below 0.4",
        "no speech was found there",
    ]


@pytest.mark.nightly
def test_a_slider_says_what_what_if_says(made: tuple[Job, Path]) -> None:
    job, _ = made
    spans = spans_of(job)
    found = measure_charts.histogram_of(spans, "duration")
    assert found is not None
    lower, upper = measure_charts.sliders(spans, "duration", found["low"], found["high"])[:2]
    assert (lower["today"], lower["positions"][lower["at"]]) == (0.7, 0.7)
    assert lower["positions"][0] is None
    assert upper["positions"][-1] is None
    for at in (0, 7, 40, lower["at"], len(lower["positions"]) - 1):
        changed = corpus.filters({"use": "loudness"}, min=lower["positions"][at])
        other = job_of(job.out.parent, filter=changed)
        told, _ = what_if.kept(other, other)
        assert lower["items"][at] == told["items"]
        assert lower["hours"][at] == pytest.approx(told["hours"], abs=1e-6)


def test_bars_add_up_to_the_hours(made: tuple[Job, Path], text: str) -> None:
    job, _ = made
    now = charts(text)["now"]["hours"]
    measured = {m["name"]: m for m in charts(text)["measures"]}
    assert {"duration", "loudness", "wer"} <= set(measured)
    bars = measured["duration"]["groups"][0]
    assert sum(bars["kept"]) == pytest.approx(now, rel=1e-3)
    table = outcomes.table(job)
    whole = sum(table["seconds"].to_pylist()) / 3600
    assert sum(bars["kept"] + bars["other"]) == pytest.approx(whole, rel=1e-3)


def test_no_source_can_write_markup(text: str) -> None:
    found = Page(text)
    assert len(found.all("script")) == 2
    assert not [tag for tag in found.tags if any(name.startswith("on") for name in tag[1])]
    assert "<img src=x" not in text
    shown = "".join(found.words)
    assert re.search(r"dataset version v0001 · \d{4}-\d\d-\d\d \d\d:\d\d UTC", shown)
    assert "</script><img src=x onerror=alert(1)>\"' & שלום" in shown


def test_no_secret_and_no_address_is_in_it(text: str) -> None:
    assert SECRET not in text
    assert "https://***@host" in text
    loaded = [a.get("src") or a.get("href") or "" for _, a in Page(text).tags]
    assert all(address.startswith(("data:", "#")) for address in loaded if address)


def test_it_is_the_same_each_time(made: tuple[Job, Path], text: str) -> None:
    job, folder = made
    assert report.page(job, folder).decode() == text


def test_players_hold_what_was_packaged(made: tuple[Job, Path]) -> None:
    job, _ = made
    found = clips.choose(spans_of(job), 0)
    clips.look_up(job, found)
    clips.make(job.out, found)
    for sample in found:
        assert (sample.media.audio is None) == (sample.row["outcome"] == "failed")
        if sample.media.audio is None:
            assert "failed" in sample.media.why
        else:
            assert sample.media.seconds == pytest.approx(sample.seconds, abs=0.01)
    assert len(found) == 10


def test_a_recording_of_one_sample_has_no_player(tmp_path: Path) -> None:
    """It is none at the player's rate. FFmpeg ran out of memory on it, and there was no report."""
    path = tmp_path / "click.wav"
    sf.write(path, np.full(1, 0.5), 48_000)
    row: Any = {"start": 0.0, "end": 1 / 48_000, "sample_rate": 48_000, "outcome": "dropped"}
    sample = Sample(row, locator=Locator(str(path)))
    clips.make(tmp_path, [sample])
    assert (sample.media.audio, sample.media.why) == (None, "it has no samples")


def test_damaged_floats_are_shown_without_a_warning() -> None:
    """numpy told the terminal of overflows in the page's pictures."""
    noise = np.random.default_rng(1).normal(size=clips.RATE).astype(np.float32)
    noise[1000:1010] = 3e38
    assert clips.media(noise).picture


def test_a_spectrogram_shows_where_the_sound_is() -> None:
    time = np.arange(clips.RATE) / clips.RATE
    tone = np.where(time < 0.5, np.sin(2 * np.pi * 1000 * time), 0).astype(np.float32)
    grey = clips.spectrogram(tone)
    assert grey.shape == (clips.HEIGHT, clips.WIDTH)
    assert grey[:, 280].min() == 15  # silence
    row = int(grey[:, 40].argmin())
    band = triangles(clips.BANDS)[:, clips.HEIGHT - 1 - row]
    assert band @ np.fft.rfftfreq(512, 1 / clips.RATE) / band.sum() == pytest.approx(1000, rel=0.05)
    data = clips.png(grey)
    lines = np.frombuffer(zlib.decompress(data[data.index(b"IDAT") + 4 : -16]), np.uint8)
    packed = lines.reshape(clips.HEIGHT, -1)[:, 1:]
    shown = np.stack([packed >> 4, packed & 15], -1).reshape(grey.shape)
    np.testing.assert_array_equal(shown, grey)


def table_of(count: int, each: int) -> pa.Table:
    rows = [
        {"recording": f"d/{r}-{n}", "source_path": f"/x/{EVIL}", "dataset": "d", "start": 0.0,
         "end": 1.0, "samples": 16000, "seconds": 1.0, "overlap_samples": 0, "sample_rate": 16000,
         "outcome": "dropped", "stage": "filter", "reason": f"reason_{r:03d}"}
        for r in range(count) for n in range(each)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=LEDGER)


@pytest.mark.parametrize(("count", "each"), [(100, 5), (300, 2), (1, 1), (0, 0)])
def test_any_number_of_reasons(
    tmp_path: Path, count: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing published, no facts, no sources."""
    ledger = table_of(count, each)
    monkeypatch.setattr(foreseen, "unpublished", lambda *_: [ledger])
    made = making.build(corpus.job(tmp_path), "20261121T172718.069524Z", None)
    found = Page(made.decode())
    rows = [row["data-reason"] for row in found.all("tr") if "data-reason" in row]
    assert len(set(rows)) == count
    assert len(rows) <= max(choice.IN_ALL, count)
    assert "2026-11-21 17:27 UTC" in "".join(found.words)


def test_no_measures_at_all(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 1)
    job = corpus.job(
        tmp_path, filter={"segmenter": {"use": "whole"}, "filters": ()},
        transcribe={"backend": {"use": "none"}, "verdicts": ()},
    )  # fmt: skip
    folder = recorded(job)
    found = charts(report.page(job, folder).decode())
    assert found["now"]["items"] == 1
    names = {m["name"] for m in found["measures"]}
    assert "seconds" in names
    assert names <= {"seconds", "decode_faults", "text_chars", "chars_per_second"}


@pytest.mark.full
def test_a_refused_run_has_a_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is packaged; `uttermill report` makes it, in a process of its own."""
    corpus.make(tmp_path / "in", 2)
    job = corpus.job(tmp_path, filter=corpus.filters(min=20))
    with pytest.raises(RunError):
        recorded(job)
    assert cli.main(["report", str(job.out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    path = Path(told["report"])
    assert path.parent == run_folder.newest(job.out)
    assert told["bytes"] == path.stat().st_size < making.BYTES
    shown = "".join(Page(path.read_text()).words)
    assert "nothing published yet" in shown
    assert "filter · duration below 20" in shown


def test_a_fault_in_it_fails_no_run(
    made: tuple[Job, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job, folder = made

    def failing(*args: Any, **more: Any) -> Any:
        return subprocess.CompletedProcess(args, -11, b"", b"first\nlast words")

    monkeypatch.setattr(subprocess, "run", failing)
    with caplog.at_level(logging.WARNING, "uttermill"):
        report.of_run(job, folder, new=True)
    assert "status -11: last words" in caplog.text


@pytest.mark.parametrize("fault", [None, RunError("the worker died")])
def test_a_worker_makes_it_or_else_a_process(
    made: tuple[Job, Path], monkeypatch: pytest.MonkeyPatch, fault: Exception | None
) -> None:
    job, folder = made
    asked: list[str] = []

    def once(work: Any, *args: Any, seconds: float) -> None:
        assert (work, args) == (report.make, (job, folder))
        asked.append("worker")
        if fault is not None:
            raise fault

    monkeypatch.setattr(report, "write", lambda job, folder: asked.append("process"))
    local: Any = SimpleNamespace(has_local_workers=True, dispatcher=SimpleNamespace(once=once))
    report.of_run(job, folder, True, local)
    assert asked == ["worker", "process"][: 1 if fault is None else 2]
    elsewhere: Any = SimpleNamespace(has_local_workers=False)
    report.of_run(job, folder, True, elsewhere)
    assert asked[-1] == "process"


def test_a_run_with_nothing_to_do_has_the_report_of_the_one_before(
    made: tuple[Job, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, folder = made
    (folder / report.NAME).write_bytes(b"the page")
    later = folder.with_name("99991231T000000.000000Z")
    shutil.copytree(folder, later, ignore=shutil.ignore_patterns(report.NAME))
    asked: list[Path] = []
    monkeypatch.setattr(report, "write", lambda job, folder: asked.append(folder))
    try:
        report.of_run(job, later, new=False)
        assert (later / report.NAME).read_bytes() == b"the page"
        (later / report.NAME).unlink()
        settings = json.loads((later / "settings.json").read_text())
        (later / "settings.json").write_text(json.dumps({**settings, "out": "elsewhere"}))
        report.of_run(job, later, new=False)
        assert asked == [later]
    finally:
        shutil.rmtree(later)
        (folder / report.NAME).unlink()


def test_columns_are_read_as_the_table_is(made: tuple[Job, Path]) -> None:
    """Which rows are packaged follows from measures and limits alone."""
    job, _ = made
    spans = spans_of(job)
    kept = ~spans.blocked & (spans.refusals == 0)
    assert kept.tolist() == spans.packaged.tolist()
    assert outcomes.table(job).num_rows == len(spans.seconds)


def test_an_axis_is_readable_and_shows_near_limits() -> None:
    values = np.sort(np.random.default_rng(0).normal(20, 3, 1000))
    low, high = measure_charts.axis(values, [10.0, 1e9])
    assert low <= 10.0
    assert high < 40
    assert measure_charts.axis(np.zeros(3), []) == (-0.5, 0.5)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (4.46, "4.46 s"), (75, "1.25 min"), (3600, "1 h"), (44_280, "12.3 h"),
     (44_442_000, "12,345 h")],
)  # fmt: skip
def test_lengths_are_short(seconds: float, shown: str) -> None:
    assert number_words.length(seconds) == shown


def test_slow_shards_and_busy_workers(made: tuple[Job, Path], text: str) -> None:
    shown = "".join(Page(text).words)
    assert "Slowest shards" in shown
    row = shown[shown.index("shard-000003") :]
    assert "5 min" in row[:200]  # its time
    assert row.index("5", row.index("5 min") + 1) < 120  # and the times of the median
    drawn = charts(text)["work"]
    assert [each["stage"] for each in drawn["busy"]] == ["filter", "resample", "transcribe"]
    step = drawn["seconds"] / worker_time.BINS
    for each in drawn["busy"]:  # the area is the time that calls took
        wall = 6 * 60.0 + 240.0 * (each["stage"] == "filter")
        assert sum(each["mean"]) * step == pytest.approx(wall, rel=0.01)
    assert [lane["worker"] for lane in drawn["lanes"]] == ["cpu-1", "cpu-0"]
    for lane in drawn["lanes"]:
        assert all(0 <= a < b <= worker_time.BINS for a, b, _ in lane["spans"])


@pytest.mark.nightly
def test_without_metrics_the_page_has_no_such_section(
    made: tuple[Job, Path], tmp_path: Path
) -> None:
    job, folder = made
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    for empty in (False, True):
        if empty:
            metrics.save(METRICS.empty_table(), copy / metrics.NAME)
        else:
            (copy / metrics.NAME).unlink()
        bare = report.page(job, copy).decode()
        assert 'id="workers"' not in bare
        assert "work" not in charts(bare)


@pytest.mark.nightly
def test_a_hundred_thousand_shards_are_added_up(tmp_path: Path) -> None:
    one = work(600, 60)
    table = pa.concat_tables([one] * 170)
    metrics.save(table, tmp_path / metrics.NAME)
    found = worker_time.page_data(tmp_path / metrics.NAME)
    assert found is not None
    assert len(json.dumps(found, default=str)) < 100_000
    assert (len(found["lanes"]), found["more"]) == (24, 36)
    assert len(found["slowest"]) == worker_time.SLOWEST
