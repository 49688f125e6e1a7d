"""The report's curves of agreement: what each limit keeps, and how right that is."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.helpers import corpus
from tests.insight.test_report import job_of, recorded
from tests.insight.test_report_choice import ledger_row
from uttermill.flows.run import report
from uttermill.tasks.insight.report import clip_table, measure_charts
from uttermill.tasks.insight.report.choice import DIFFERS, Why
from uttermill.tasks.insight.report.clip_table import PER_KIND, first, kind_of
from uttermill.tasks.insight.report.clips import Sample
from uttermill.tasks.insight.report.spans import Spans
from uttermill.tasks.publish.corpus import limits

VERDICTS = [{"use": "agreement", "min": 0.7}, {"use": "logprob", "min": -0.25}]
NAN = float("nan")


def spans(tmp_path: Path, **values: list[float]) -> Spans:
    """A table of outcomes with these columns of numbers, nulls in the others."""
    job = corpus.job(
        tmp_path, sources=[], transcribe={"backend": {"use": "fake"}, "verdicts": VERDICTS}
    )
    count = len(values["seconds"])
    schema = limits.outcomes_schema(job)
    table = {
        field.name: pa.array(values[field.name], from_pandas=True).cast(field.type)
        if field.name in values
        else pa.nulls(count, field.type)
        for field in schema
    }
    return Spans(job, schema, [pa.table(table, schema=schema)])


FOUR: dict[str, list[float]] = {
    "seconds": [1.0, 2.0, 3.0, 4.0],
    "agreement": [1.0, 0.9, 0.9, 0.5],
    "avg_logprob": [-0.1, NAN, -0.3, -0.2],
    "words": [10.0] * 4,
    "word_errors": [0.0, 1.0, 0.0, 4.0],
}


def test_curves_are_exact(tmp_path: Path) -> None:
    found = measure_charts.of_agreement(spans(tmp_path, **FOUR))
    assert found is not None
    first, second = found["lines"]
    assert first["limit"] == [1.0, 0.9, 0.5]  # equal values are kept together
    assert first["kept"] == [0.1, 0.6, 1.0]
    assert first["wer"] == pytest.approx([0.0, 1 / 30, 5 / 40], rel=1e-4)
    assert second["limit"] == [-0.1, -0.2, -0.3, None]  # without a value: only without a limit
    assert second["kept"] == [0.1, 0.5, 0.8, 1.0]
    assert second["wer"] == pytest.approx([0.0, 4 / 20, 4 / 30, 5 / 40], rel=1e-4)
    assert (first["today"], second["today"]) == (0.7, -0.25)
    assert (found["items"], found["references"]) == (4, 4)
    assert found["hours"] == pytest.approx(10 / 3600)
    cells = dict(zip(found["shares"], found["table"][0]["cells"], strict=True))
    assert cells[1.0] == {"limit": 0.5, "kept": 1.0, "wer": 0.125}
    assert cells[0.6] == {"limit": 0.9, "kept": 0.6, "wer": pytest.approx(1 / 30)}
    assert cells[0.5]["kept"] == 0.1


def test_only_what_several_heard_counts(tmp_path: Path) -> None:
    values = {**FOUR, "agreement": [1.0, NAN, NAN, 0.5]}
    found = measure_charts.of_agreement(spans(tmp_path, **values))
    assert found is not None
    assert found["items"] == 2
    assert found["lines"][0]["kept"] == [0.2, 1.0]
    alone = {**FOUR, "agreement": [NAN] * 4}
    assert measure_charts.of_agreement(spans(tmp_path, **alone)) is None


def test_without_references_there_are_no_rates(tmp_path: Path) -> None:
    values = {name: some for name, some in FOUR.items() if not name.startswith("word")}
    found = measure_charts.of_agreement(spans(tmp_path, **values))
    assert found is not None
    assert found["references"] == 0
    assert found["lines"][0]["wer"] == [None] * 3
    assert found["lines"][0]["kept"] == [0.1, 0.6, 1.0]


def test_many_points_are_thinned_out(tmp_path: Path) -> None:
    count = 5000
    values = {"seconds": [1.0] * count, "agreement": [n / count for n in range(count)]}
    found = measure_charts.of_agreement(spans(tmp_path, **values))
    assert found is not None
    [line] = found["lines"]  # nobody gave a log-probability
    assert len(line["kept"]) <= measure_charts.POINTS
    assert (line["kept"][-1], line["limit"][-1]) == (1.0, 0.0)
    kept = [share for share in line["kept"] if share is not None]
    assert kept == sorted(kept)
    assert len(kept) == len(line["kept"])


# The page shows first the clips whose recogniser differs most from their reference, by kind.


def sample(reference: str, heard: str, language: str = "en", **measures: float) -> Sample:
    blank = {"detail": None, "value": None, "threshold": None}
    row: Any = ledger_row(1, language=language, **blank)
    why = Why(DIFFERS, DIFFERS, "wer", 0.5)
    return Sample(row, [why], reference=reference, heard=heard, measures=measures)


@pytest.mark.parametrize(
    ("reference", "heard", "language", "measures", "kind"),
    [
        ("call extension four two one now", "call extension 481 now", "en", {}, "numbers"),
        ("the price is twenty four euros", "the price is funny door euros", "en", {}, "numbers"),
        ("der Preis ist vierundzwanzig Euro", "der Preis ist viel Euro", "de", {}, "numbers"),
        ("ruf die zwanzig drei an", "ruf die schwanz bei an", "de", {}, "numbers"),
        ("we met Thornton at the mill", "we met Thoughton at the mill", "en", {}, "names"),
        ("we met thornton at the mill", "we met Torton at the mill", "en", {}, "names"),
        ("this is what he said to us", "he said to us", "en", {}, "cut"),
        ("he said to us", "he said to us and then he left", "en", {}, "cut"),
        ("he said it to all of us", "he said", "en", {"speech_after_text": 2.0}, "cut"),
        ("it is of great importance that the letter used should be fine in form",
         "it is of great importance at the letter you", "en", {}, "cut"),
        ("how are you today", "comment allez vous", "en", {"language_contradiction": 0.9},
         "language"),
        ("how are you today", "come on you today", "en", {"language_contradiction": 0.2}, "words"),
        ("how are you today", "как вы сегодня", "en", {}, "language"),
        ("今天天气怎么样", "きょうの天気", "zh", {}, "words"),
        ("the sea was calm that night", "a sea wars come that night", "en", {"nmf_snr": 3.0},
         "noise"),
        ("the sea was calm that night", "a sea wars come that night", "en", {"nmf_snr": 30.0},
         "words"),
        ("the sea was calm that night", "a sea wars come that night", "en", {"confidence": -0.5},
         "noise"),
        ("the same words", "The same words.", "en", {}, "words"),
    ],
)  # fmt: skip
def test_what_two_texts_differ_in(
    reference: str, heard: str, language: str, measures: dict[str, float], kind: str
) -> None:
    assert kind_of(sample(reference, heard, language, **measures)) == kind


def test_capitals_of_all_words_or_of_german_nouns_are_no_names() -> None:
    assert kind_of(sample("THE SEA WAS CALM", "THE SEA WARS CALM")) == "words"
    assert kind_of(sample("Das ist ein Baum hier", "Das ist ein Raum hier", "de")) == "words"


def test_the_first_of_each_kind_come_first_and_surplus_ones_only_for_another_reason() -> None:
    near = Why("packaged", "near a limit", "wer", 0.5)
    plain = [sample(f"a {n} b c", "a x b c") for n in range(PER_KIND + 3)]
    cut = sample("this is what he said to us", "he said to us")
    plain[-1].whys.append(near)
    other = replace(sample("", ""), whys=[near])
    made = first([other, *plain, cut])
    assert made == [cut, *plain[:PER_KIND], other, plain[-1]]
    assert [why.kind for why in cut.whys] == [f"{DIFFERS}: cut"]
    assert plain[-1].whys == [near]
    assert dict(clip_table.sections(made)) == {
        f"{DIFFERS}: cut": [0], f"{DIFFERS}: numbers": list(range(1, 1 + PER_KIND)),
    }  # fmt: skip
    assert clip_table.reasons(cut, {}) == [("differs most: cut", "wer 0.5")]


@pytest.mark.full
def test_the_page_begins_with_them(tmp_path: Path) -> None:
    """The fake recogniser hears other words than the list has."""
    corpus.make(tmp_path / "in", 6)
    texts = {"r01": "we read twenty one and thirty two aloud", "r03": "Everything is said. Here"}
    corpus.listed(tmp_path / "in", 6, tmp_path / "list.jsonl", **texts)
    job = job_of(tmp_path)
    page = report.page(job, recorded(job)).decode()
    table = page[page.index('<table class="clips">') :]
    rows = re.findall(r"<tr data-reason=.*?</tr>", table, re.S)
    assert rows
    assert all("differs most: " in row for row in rows[: min(len(rows), PER_KIND)])
    first_option = re.search(r'<option value="([^"]+)" data-rows="\[0[,\]]', page)
    assert first_option
    assert first_option[1].startswith("differs most: ")
