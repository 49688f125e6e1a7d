"""`package.only` and `package.without`: clips by speaker, dataset and language, at no cost."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks.base.errors import ConfigError, NothingLeft
from uttermill.tasks.insight.estimating import planning, what_if
from uttermill.tasks.publish.choosing import next_version
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import clip_choice


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("choice")
    for number, name in enumerate(("anna", "anna", "bob", "cleo", "cleo")):
        corpus.add(home / "one" / name, number)
        corpus.add(home / "two" / name, number + 5)
    corpus.add(home / "one", 3, seed=77, name="lone.wav")
    corpus.run(asked(home))
    return home


def asked(home: Path, **package: Any) -> Job:
    sources = [
        {"kind": "folder", "path": str(home / name), "name": name, "language": language,
         "speaker": {"pattern": "^(?P<speaker>[^/]+)/"}}
        for name, language in (("one", "en"), ("two", "de"))
    ]  # fmt: skip
    return corpus.job(home, sources=sources, package=package)


CHOICES: list[tuple[dict[str, Any], int]] = [
    ({"only": {"speaker": ["anna", "bob"]}}, 6),
    ({"only": {"speaker": ["one/anna"]}}, 2),
    ({"only": {"speaker": ["anna"], "language": ["de"]}}, 2),
    ({"only": {"dataset": ["one"]}, "without": {"speaker": ["anna", "cleo"]}}, 2),
    ({"without": {"language": ["de"]}}, 6),
    ({"without": {"speaker": ["bob"], "dataset": ["two"]}}, 5),
    ({"without": {"speaker": ["anna"]}, "splits": {"dev": 0.3}}, 7),
    ({"without": {"speaker": ["anna"]}, "max_hours_per_speaker": 5}, 7),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("package", "count"), [CHOICES[0], *(tiers.nightly(*one) for one in CHOICES[1:])], ids=str
)
def test_what_is_chosen_is_packaged_and_nothing_is_computed(
    base: Path, package: dict[str, Any], count: int
) -> None:
    """And what-if and plan say so before."""
    now, then = asked(base), asked(base, **package)
    corpus.run(now)
    plan = planning.plan(then, now)
    assert what_if.kept(now, then)[1]["items"] == count
    published, counts = corpus.run(then)
    assert plan.clips[1] == count
    assert all(computed == 0 for name, (computed, _) in counts.items() if name != "package")
    kept = corpus.utterances(published.path)
    assert len(kept) == count
    only, without = package.get("only", {}), package.get("without", {})
    for row in kept:
        named = {**row, "speaker": row["speaker"]}
        assert all(
            named[kind] in names or f"{row['dataset']}/{named[kind]}" in names
            for kind, names in only.items()
        )
        assert all(named[kind] not in names for kind, names in without.items())
    ledger = corpus.ledger(published.path)
    gone = [row for row in ledger if row["outcome"] == "dropped"]
    assert {(row["stage"], row["reason"]) for row in gone} == {("package", "not_chosen")}
    assert len(gone) == 11 - count
    again = corpus.run(then)[0]
    assert not again.new
    back, _ = corpus.run(now)
    assert len(corpus.utterances(back.path)) == 11


def test_what_is_not_chosen_is_not_recognised(tmp_path: Path) -> None:
    """Dataset, speaker and language are known before; plan, what-if, run and ledger agree, and a
    wider choice computes what it adds."""
    for number, name in enumerate(("anna", "bob", "cleo")):
        corpus.add(tmp_path / "one" / name, number)
        corpus.add(tmp_path / "two" / name, number + 5)
    narrow = asked(tmp_path, only={"speaker": ["anna", "two/bob"]})
    plan = planning.plan(narrow, None)
    assert [plan.stages[name].compute for name in corpus.STAGES] == [6, 6, 3, 3, 3]
    published, counts = corpus.run(narrow)
    assert [counts[name][0] for name in corpus.STAGES] == [6, 6, 3, 3, 3]
    ledger = corpus.ledger(published.path)
    gone = [row for row in ledger if row["outcome"] == "dropped"]
    assert {(row["stage"], row["reason"]) for row in gone} == {("package", "not_chosen")}
    assert {row["language"] for row in gone} == {"en", "de"}  # as the sources state
    assert planning.plan(narrow, narrow).clips == (3, 3)
    assert not corpus.run(narrow)[0].new
    wide = asked(tmp_path, without={"language": ["German"]})
    told = what_if.kept(narrow, wide)[1]
    assert (told["items"], told["not_yet_transcribed"]["items"]) == (3, 2)
    plan = planning.plan(wide, narrow)
    assert [plan.stages[name].compute for name in corpus.STAGES[1:4]] == [0, 2, 2]
    published, counts = corpus.run(wide)
    assert [counts[name][0] for name in corpus.STAGES[1:4]] == [0, 2, 2]
    assert {row["dataset"] for row in corpus.utterances(published.path)} == {"one"}


@pytest.mark.parametrize(
    ("wanted", "language", "is_it"),
    [
        ("English", "en", True), ("eng", "en", True), ("en", "en_US", True), ("EN", "en", True),
        ("en-us", "en_US", True), ("English", "en-GB", True), ("German", "de", True),
        ("en_US", "en", False), ("en_US", "en_GB", False), ("de", "en", False),
        ("Klingon", "Klingon", True), ("e", "en", False), ("zh", "yue", False),
    ],
)  # fmt: skip
def test_languages_are_written_as_sources_may_write_them(
    base: Path, wanted: str, language: str, is_it: bool
) -> None:
    rows = pa.table({"dataset": ["one"], "speaker": ["anna"], "language": [language]})
    for setting, good in (("only", is_it), ("without", not is_it)):
        settings = asked(base, **{setting: {"language": [wanted]}}).package
        assert clip_choice.chosen(settings, rows).tolist() == [good]


@pytest.mark.nightly
def test_a_name_that_no_clip_has_is_told(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus.run(asked(base))
    missing = {"language": ["German", "Klingon"], "speaker": ["anna", "dave", "two/cleo"]}
    then = asked(base, only=missing)
    counted = what_if.kept(asked(base), then)[1]["items"]
    assert len(corpus.utterances(corpus.run(then)[0].path)) == counted == 4
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for sentence in (
        "package.only.speaker: no clip has 'dave'; there are: anna, bob, cleo",
        "package.only.language: no clip has 'Klingon'; there are: de, en",
    ):
        assert any(one.startswith(sentence) for one in said), said
    with pytest.raises(NothingLeft):
        corpus.run(asked(base, only={"language": ["Klingon"]}))
    corpus.run(asked(base))


def test_what_is_not_there(base: Path) -> None:
    with pytest.raises(ConfigError, match="there is no dataset 'three'; there are: one, two"):
        next_version.check(asked(base, only={"dataset": ["three"]}))
    nobody = asked(base, only={"speaker": ["nobody"]})
    with pytest.raises(NothingLeft, match="choose none of the clips") as it:
        corpus.run(nobody)
    assert str(it.value).startswith(str(planning.plan(nobody, asked(base)).refusal))


LABELS: tuple[dict[str, str], ...] = (
    {"emotion": "happy", "accent": "us"},
    {"emotion": "sad"},
    {"emotion": "happy"},
    {},
    {},
)


def labelled(home: Path, labels: list[str] | None = None, **changes: Any) -> Job:
    """A job on a list whose lines say LABELS."""
    (home / "in").mkdir(parents=True, exist_ok=True)
    corpus.make(home / "in", len(LABELS))
    lines = [{"wav": f"in/r0{n}.wav", "txt": f"reference {n}", **said}
             for n, said in enumerate(LABELS)]  # fmt: skip
    corpus.jsonl(home / "list.jsonl", lines)
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "labels": labels}
    return corpus.job(home, sources=[source], **changes)


@pytest.mark.full
@pytest.mark.parametrize(
    ("package", "count"),
    [
        tiers.nightly({"only": {"labels": {"emotion": ["happy"]}}}, 2),
        tiers.nightly({"only": {"labels": {"emotion": ["happy", "sad"]}}}, 3),
        tiers.nightly({"only": {"labels": {"emotion": ["happy"], "accent": ["us"]}}}, 1),
        tiers.nightly({"without": {"labels": {"emotion": ["happy"]}}}, 3),
        (
            {"without": {"labels": {"emotion": ["sad"], "accent": ["us"]}}, "splits": {"dev": 0.4}},
            3,
        ),
    ],
    ids=str,
)
def test_labels_choose_at_no_cost(tmp_path: Path, package: dict[str, Any], count: int) -> None:
    names = ["emotion", "accent"]
    now, then = (labelled(tmp_path, names, package=some) for some in ({}, package))
    whole, _ = corpus.run(now)
    said = {
        row["source_path"][-7:-4]: dict(row["labels"] or ())
        for row in corpus.utterances(whole.path)
    }
    assert said == {f"r0{n}": labels for n, labels in enumerate(LABELS)}
    assert what_if.kept(now, then)[1]["items"] == count
    assert planning.plan(then, now).clips[1] == count
    published, counts = corpus.run(then)
    assert all(computed == 0 for name, (computed, _) in counts.items() if name != "package")
    assert len(corpus.utterances(published.path)) == count
    assert not corpus.run(then)[0].new


@pytest.mark.full
def test_a_list_that_states_labels_later_computes_nothing(tmp_path: Path) -> None:
    """Labels are columns of the published tables; no stage depends on them."""
    plain = labelled(tmp_path)
    before, _ = corpus.run(plain)
    assert "labels" not in pq.read_schema(before.path / "utterances.parquet").names
    stated, counts = corpus.run(labelled(tmp_path, ["emotion"]))
    assert stated.new
    assert all(counts[stage][0] == 0 for stage in ("filter", "resample", "transcribe"))
    assert [row["labels"] for row in corpus.utterances(stated.path)].count(
        [("emotion", "happy")]
    ) == 2


def test_a_label_that_no_source_keeps_is_refused(tmp_path: Path) -> None:
    choice = {"only": {"labels": {"mood": ["happy"]}}}
    with pytest.raises(ConfigError, match="keeps a label 'mood'; there are: emotion, accent"):
        next_version.check(labelled(tmp_path, ["emotion", "accent"], package=choice))
    with pytest.raises(ConfigError, match=r"set `labels: \[mood\]` on the source"):
        next_version.check(labelled(tmp_path, package=choice))
