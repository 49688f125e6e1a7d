"""What-if, plan, estimate and a run give one answer to the question which clips are kept."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import corpus, fuzz
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.insight.estimating import planning, sample, what_if
from uttermill.tasks.publish import corpus as rules_over_all
from uttermill.tasks.publish import foreseen
from uttermill.tasks.publish.corpus import limits
from uttermill.tasks.publish.outcomes.shard_batches import LIMITS
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import decision_log, manifest
from uttermill.tasks.shard_store.decision_log import Decision
from uttermill.tasks.shard_store.shard_view import ShardView

COUNT = 13
SHARDS = {"settle_seconds": 0.0, "hours": 6 / 3600}
STATES = ("whole", "unheard", "unconverted", "uncut")


def job(base: Path, out: Path, **changes: Any) -> Job:
    """Recordings with references, some of them wrong, in a few shards."""
    source = {"kind": "jsonl", "path": str(base / "list.jsonl"), "name": "c"}
    package = {"max_failed_fraction": 1.0, **changes.pop("package", {})}
    return corpus.job(base, out=out, sources=[source], shard=SHARDS, package=package, **changes)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirteen recordings of 0.4 to 2.8 s, one of them twice, with decisions by people, after a
    run; and OUTs in which some shards lack results of a stage."""
    tmp = tmp_path_factory.mktemp("answers")
    corpus.make(tmp / "in", COUNT)
    corpus.listed(tmp / "in", COUNT, tmp / "list.jsonl", r03="x", r04="", r06="…")
    lines = (tmp / "list.jsonl").read_text().splitlines()
    lines = [json.dumps({**json.loads(one), "speaker": f"s{n % 2}"}) for n, one in enumerate(lines)]
    (tmp / "list.jsonl").write_text("\n".join(lines) + "\n")
    line = lines[7]
    shutil.copy(tmp / "in" / "r07.wav", tmp / "in" / "twin.wav")
    with (tmp / "list.jsonl").open("a") as file:
        file.write(line.replace("r07.wav", "twin.wav").replace("k7", "twin") + "\n")
    out = tmp / "whole"
    published, _ = corpus.run(job(tmp, out))
    ids = sorted(pq.read_table(published.path / "utterances.parquet")["id"].to_pylist())
    kinds = ("keep", "drop", "retext")
    texts = {"retext": "what a person wrote"}
    said = [Decision(ids[n], kind, texts.get(kind)) for n, kind in enumerate(kinds)]
    decision_log.append(out, said)
    corpus.run(job(tmp, out))
    lacking = {"unheard": "transcribe", "unconverted": "resample", "uncut": "filter"}
    for state, stage in lacking.items():
        shutil.copytree(out, tmp / state, symlinks=True)
        shard = manifest.shards(out)[1]
        for path in manifest.files(tmp / state, stage, shard):
            path.unlink()
    return tmp


LIMIT = st.none() | st.floats(0.3, 3.0).map(lambda x: round(x, 2))
RULES: list[dict[str, Any]] = [
    {"use": "empty_text", "min_chars": 3},
    {"use": "char_rate", "max_alphabetic": 12.0},
    {"use": "char_rate", "max_alphabetic": 9.0, "unless_wer": 0.9},
    {"use": "error_rate", "max_spaced": 0.5},
    {"use": "language", "allowed": ["en"]},
    {"use": "language", "min_probability": 0.9},
    {"use": "no_speech"},
    {"use": "logprob", "min": -0.2},
    {"use": "repeated_text", "max_times": 1},
    {"use": "char_duration", "min_group": 1, "width": 0.5},
]
VERDICTS = st.lists(st.sampled_from(RULES), unique_by=lambda plugin: str(plugin["use"]), max_size=4)
PACKAGES: dict[str, list[Any]] = {
    "weights": [{"c": 0.5}],
    "splits": [{"test": 0.3}, {"dev": 0.2, "test": {"hours": 0.001}}],
    "disjoint": [["recording"], ["speaker", "recording", "text"]],
    "max_hours_per_speaker": [0.001],
    "only": [{"speaker": ["s1"]}, {"language": ["en"]}],
    "without": [{"speaker": ["c/s1"], "language": ["en"]}, {"speaker": ["s0"]}],
    "text_form": ["normalised"],
}
PACKAGE = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in PACKAGES.items()}
)


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    low, high = draw(LIMIT), draw(LIMIT)
    if low is not None and high is not None and low > high:
        low, high = high, low
    filters = [{"use": "duration", "min": low, "max": high}, {"use": "silence"}]
    if draw(st.booleans()):
        filters.append({"use": "clipping", "max_fraction": draw(st.sampled_from([0.0, 0.5]))})
    return {
        "filter": {
            "segmenter": {"use": "whole"},
            "filters": filters,
            "damaged": draw(st.sampled_from(["drop", "keep"])),
            "max_hours": draw(st.sampled_from([48.0, 0.0006])),
            "duplicate_files": draw(st.sampled_from(["drop", "keep"])),
        },
        "transcribe": {
            "backend": {"use": "fake"},
            "verdicts": draw(VERDICTS),
            "text": draw(st.sampled_from(["reference", "asr", "reference_if_close"])),
        },
        "package": draw(PACKAGE),
    }


def by_view(asked: Job) -> Iterator[tuple[str, tuple[object, ...]]]:
    """The outcome that the stages see of each utterance, one by one."""
    for shard in sorted(manifest.shards(asked.out)):
        for u in ShardView(asked, shard).transcribed():
            o = u.outcome
            facts = o.outcome, o.stage, o.reason, o.value, o.threshold, o.detail
            yield u.id, facts


@pytest.mark.full
@fuzz.cases(24)
@given(settings(), st.sampled_from(STATES))
def test_the_query_decides_each_clip_as_the_stages_do(
    base: Path, chosen: dict[str, Any], state: str
) -> None:
    asked = job(base, base / state, **chosen)
    queried: list[tuple[str, tuple[object, ...]]] = []
    with foreseen.version(asked, manifest.shards(asked.out)) as version:
        for batch in version.batches:
            ids = batch.table(LIMITS, ("id",))["id"].to_pylist()
            rows = batch.outcomes().select(limits.OUTCOME_COLUMNS).to_pylist()
            queried += zip(ids, (tuple(row.values()) for row in rows), strict=True)
    assert queried == [*by_view(asked)]


@pytest.mark.full
@fuzz.cases(6)
@given(settings(), st.sampled_from(STATES))
def test_all_say_what_a_run_packages(
    base: Path, tmp_path_factory: pytest.TempPathFactory, chosen: dict[str, Any], state: str
) -> None:
    out = tmp_path_factory.mktemp("run") / "out"
    shutil.copytree(base / state, out, symlinks=True)
    before, asked = job(base, base / state), job(base, out, **chosen)
    told = what_if.kept(replace(before, out=out), asked)[1]
    planned = planning.plan(asked, replace(before, out=out))
    estimated = sum(known.kept for known in sample.known(asked, manifest.shards(out)).values())
    with foreseen.version(asked, manifest.shards(out)) as version:
        clips = version.clips(["id", "blob"]).to_pylist()
    going = any(planned.stages[name].compute for name in ("filter", "resample", "transcribe"))
    refusal: str | None = None
    try:
        published, _ = corpus.run(asked)
    except RunError as refused:
        refusal = refused.args[0]
    assert going or planned.refusal == refusal  # what is still to be heard may be dropped
    if refusal is not None:
        return
    rows = corpus.utterances(published.path)
    ids = {row["id"] for row in rows}
    among_all = bool(rules_over_all.chosen(asked) or asked.package.splits)
    among_all |= asked.package.max_hours_per_speaker is not None
    if going:
        # Clips that are still to be heard may yet be dropped, or take the place of others.
        assert among_all or {row["id"] for row in clips if row["blob"]} <= ids
        return
    assert {row["id"] for row in clips} == ids
    assert told["items"] == planned.clips[1] == len(rows)
    if not among_all:
        seconds = sum(row["end"] - row["start"] for row in rows)
        assert estimated == pytest.approx(seconds)


def test_the_query_is_printed(base: Path) -> None:
    asked = job(base, base / "whole", filter=corpus.filters(min=1.25))
    printed = "\n".join(what_if.explained(asked))
    assert "\"duration\" < '1.25'::DOUBLE" in printed
    assert "'filter.too_short'" in printed.replace("'filter', 'too_short'", "'filter.too_short'")
