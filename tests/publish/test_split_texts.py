"""No text in two splits: what is kept together, what is left out, and what is counted."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.test_show import said
from tests.helpers import corpus, fuzz, tiers
from tests.publish.test_splits import NOTHING, Clip, faults_of, hours, sides, table
from uttermill.flows.cli.show import results
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.publish.upkeep.verify import verify

STRICT = ["speaker", "recording", "audio", "text"]
LOOSE = ["speaker", "recording", "audio"]


def prompts(readers: int, count: int, named: bool) -> tuple[list[Clip], dict[str, str]]:
    """Every reader reads every prompt, a recording each; readers are `named` or unknown."""
    clips: list[Clip] = [
        (f"u{r:03d}-{p:03d}", f"r{r:03d}-{p:03d}", f"s{r:03d}" if named else None, f"p{r}-{p}", 4.0)
        for r in range(readers)
        for p in range(count)
    ]
    return clips, {clip[0]: f"prompt {clip[0][5:]}" for clip in clips}


def torn(clips: list[Clip], where: dict[str, str], texts: dict[str, str]) -> int:
    """How many texts are in several splits."""
    found: dict[str, set[str]] = defaultdict(set)
    for clip in clips:
        if where[clip[0]]:
            found[texts[clip[0]]].add(where[clip[0]])
    return sum(len(splits) > 1 for splits in found.values())


@pytest.mark.full
def test_prompts_of_unknown_readers_come_apart_without_a_loss() -> None:
    clips, texts = prompts(10, 20, named=False)
    loose, _ = sides(clips, texts=texts, splits={"dev": 0.2}, disjoint=LOOSE)
    assert torn(clips, loose, texts) > 10, "a control"
    where, found = sides(clips, texts=texts, splits={"dev": 0.2})
    assert torn(clips, where, texts) == 0
    assert "" not in where.values()
    assert hours(clips, where)["dev"] == pytest.approx(0.2 * 200 * 4 / 3600, abs=40 / 3600)
    assert set(found.table["kind"].to_pylist()) == {"recording", "pcm", "text"}
    strict, _ = sides(clips, texts=texts, splits={"dev": 0.2}, disjoint=STRICT)
    assert strict == where


@pytest.mark.full
@pytest.mark.parametrize(
    ("readers", "count", "dev"),
    [(6, 6, 0.2), tiers.nightly(20, 50, 0.05), tiers.nightly(12, 8, 0.1)],
)
def test_where_everybody_reads_everything_each_text_has_one_split(
    readers: int, count: int, dev: float
) -> None:
    clips, texts = prompts(readers, count, named=True)
    loose, _ = sides(clips, texts=texts, splits={"dev": dev}, disjoint=LOOSE)
    assert torn(clips, loose, texts) == count
    where, found = sides(clips, texts=texts, splits={"dev": dev})
    assert torn(clips, where, texts) == 0
    counts = {side: [*where.values()].count(side) for side in ("train", "dev", "")}
    assert counts["dev"] > 0
    assert counts["train"] >= 0.55 * len(clips)
    assert any("clips" in note and "another split has their texts" in note for note in found.notes)
    who = defaultdict(set)
    for clip in clips:
        if where[clip[0]]:
            who[clip[2]].add(where[clip[0]])
    assert all(len(each) == 1 for each in who.values()), "speakers stay apart, too"


@pytest.mark.nightly
def test_speech_that_is_not_read_loses_nothing_unless_asked() -> None:
    """Some of it is `yes`, everywhere: left out of dev alone when texts shall be apart."""
    clips: list[Clip] = [
        (f"u{n:03d}", f"r{n:03d}", f"s{n % 50}", f"p{n}", 1.0 if n % 7 == 0 else 5.0)
        for n in range(400)
    ]
    texts = {c[0]: "yes" if n % 7 == 0 else f"text {n}" for n, c in enumerate(clips)}
    where, found = sides(clips, texts=texts, splits={"dev": 0.1})
    assert "" not in where.values()
    assert "text" not in found.table["kind"].to_pylist()
    strict, _ = sides(clips, texts=texts, splits={"dev": 0.1}, disjoint=STRICT)
    lost = {key for key, split in strict.items() if not split}
    assert lost == {key for key, split in where.items() if split == "dev" and texts[key] == "yes"}
    assert lost
    assert {k: v for k, v in strict.items() if v} == {k: where[k] for k in where.keys() - lost}


def test_one_wake_word_is_no_prompt() -> None:
    clips, _ = prompts(30, 3, named=False)
    where, _ = sides(clips, texts=dict.fromkeys((c[0] for c in clips), "hey"), splits={"dev": 0.2})
    assert {*where.values()} == {"train", "dev"}


def placed(clips: list[Clip], where: dict[str, str], texts: dict[str, str]) -> Any:
    """Published rows."""
    import pyarrow as pa

    kept = [clip for clip in clips if where[clip[0]]]
    splits = pa.array([where[clip[0]] for clip in kept], pa.string())
    rows = table(kept, texts)
    return rows.set_column(rows.column_names.index("split"), "split", splits)


def test_verify_finds_a_text_on_two_sides() -> None:
    clips, texts = prompts(4, 6, named=False)
    where, found = sides(clips, texts=texts, splits={"dev": 0.3})
    moved = {**where, clips[0][0]: "dev" if where[clips[0][0]] == "train" else "train"}
    faults = faults_of(placed(clips, moved, texts), found.table)
    assert any(fault.startswith("the text ") for fault in faults)


@pytest.mark.full
def test_a_list_keeps_its_texts(tmp_path: Path) -> None:
    """What a list names stays whole; others who read the same are left out, not drawn after it."""
    clips, texts = prompts(10, 20, named=True)
    path = tmp_path / "list.txt"
    path.write_text("s001\n")
    share = {"list": str(path)}
    with pytest.raises(RunError, match="nothing is left for train"):  # it has all texts
        sides(clips, texts=texts, splits={"test": share}, disjoint=STRICT)
    some = {key: text if key < "u002" else f"own {key}" for key, text in texts.items()}
    where, _ = sides(clips, texts=some, splits={"test": share}, disjoint=STRICT)
    assert [c[0] for c in clips if where[c[0]] == ""] == [c[0] for c in clips if c[2] == "s000"]


def test_only_what_is_named_is_kept_apart() -> None:
    clips: list[Clip] = [(f"u{n:02d}", "r1", f"s{n % 4}", f"p{n}", 5.0) for n in range(40)]
    where, found = sides(clips, splits={"dev": 0.25}, disjoint=["speaker"])
    assert {*where.values()} == {"train", "dev"}
    assert set(found.table["kind"].to_pylist()) == {"speaker"}
    together, _ = sides(clips, splits={"dev": 0.25})
    assert {*together.values()} == {"train"}, "one recording"


RULES = [[k for n, k in enumerate(STRICT) if some >> n & 1] for some in range(16)]


@pytest.mark.full
@pytest.mark.parametrize("disjoint", tiers.few(RULES, STRICT, [], LOOSE, ["text"]), ids="-".join)
def test_who_shares_nothing_has_a_split_all_the_same(disjoint: list[str]) -> None:
    """Clips without a speaker, or a text, belong to no name that is kept together; nor does any if
    nothing is."""
    clips: list[Clip] = [
        (f"u{n:02d}", f"r{n // 2:02d}", f"s{n // 4}" if n % 3 else None, f"p{n}", 5.0)
        for n in range(60)
    ]
    texts = {clip[0]: f"text {n // 2}" for n, clip in enumerate(clips) if n % 5}
    package: dict[str, Any] = {"splits": {"dev": 0.25}, "disjoint": disjoint}
    then, found = sides(clips[:40], texts=texts, **package)
    assert {*then.values()} - {""} == {"train", "dev"}
    where, _ = sides(clips, found.table, texts=texts, **package)
    assert {key: where[key] for key, split in then.items() if split} == {
        key: split for key, split in then.items() if split
    }, "what is published stays"
    if "text" not in disjoint:
        assert "" not in {*where.values()}
    assert hours(clips, where)["dev"] == pytest.approx(75 / 3600, abs=25 / 3600)


GRID = st.sets(
    st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 7)), min_size=1, max_size=40
)


@fuzz.cases(20)
@given(GRID, GRID, st.randoms(use_true_random=False))
@pytest.mark.nightly
def test_random_texts(first: set[Any], more: set[Any], random: Any) -> None:
    """Whoever reads what: no text on two sides, the order of rows does not matter, and what was
    published stays."""
    package: dict[str, Any] = {"splits": {"dev": 0.2, "test": 0.1}, "disjoint": STRICT}
    before, last = NOTHING, dict[str, str]()
    for version in (first, first | more):
        clips: list[Clip] = [
            (f"{r}-{s}-{t}", f"r{r}", f"s{s}" if s else None, f"p{r}-{s}-{t}", 1.0 + t % 3)
            for r, s, t in sorted(version)
        ]
        texts = {c[0]: f"t{t}" for c, (_, _, t) in zip(clips, sorted(version), strict=True) if t}
        where, found = sides(clips, before, texts=texts, **package)
        mixed = random.sample(clips, len(clips))
        assert sides(mixed, before, texts=texts, **package)[0] == where
        assert torn([c for c in clips if c[0] in texts], where, texts) == 0
        assert faults_of(placed(clips, where, texts), found.table) == []
        assert all(where[key] == split for key, split in last.items())
        assert "train" in where.values()
        before, last = found.table, {key: split for key, split in where.items() if split}


@pytest.mark.full
def test_near_equal_texts_stay_on_one_side() -> None:
    words = [f"word{n}" for n in range(12)]
    clips: list[Clip] = [(f"u{n:03d}", f"r{n:03d}", None, f"p{n}", 4.0) for n in range(60)]
    texts = {
        clip[0]: " ".join([f"prompt{n // 3}", *words[:8], f"{n // 3}", f"take{n % 3}"])
        for n, clip in enumerate(clips)
    }
    prompt = {clip[0]: str(n // 3) for n, clip in enumerate(clips)}
    loose, _ = sides(clips, texts=texts, splits={"dev": 0.3}, disjoint=LOOSE)
    assert torn(clips, loose, prompt) > 3, "a control"
    strict, found = sides(clips, texts=texts, splits={"dev": 0.3}, disjoint=STRICT)
    assert torn(clips, strict, prompt) == 0
    assert "" not in strict.values()
    # A later take of a prompt follows it.
    more: list[Clip] = [(f"v{n:03d}", f"q{n:03d}", None, f"q{n}", 4.0) for n in range(20)]
    texts |= {
        clip[0]: " ".join([f"prompt{n}", *words[:8], f"{n}", "last"]) for n, clip in enumerate(more)
    }
    prompt |= {clip[0]: str(n) for n, clip in enumerate(more)}
    after, _ = sides(clips + more, found.table, texts, splits={"dev": 0.3}, disjoint=STRICT)
    assert torn(clips + more, after, prompt) == 0
    assert all(after[key] == split for key, split in strict.items())


def test_near_equal_texts_that_were_published_apart_stay_there() -> None:
    words = " ".join(f"word{n}" for n in range(12))
    clips: list[Clip] = [(f"u{n:03d}", f"r{n:03d}", None, f"p{n}", 4.0) for n in range(30)]
    texts = {clip[0]: f"{words} {n}" for n, clip in enumerate(clips)}
    loose, found = sides(clips, texts=texts, splits={"dev": 0.3}, disjoint=LOOSE)
    assert {*loose.values()} == {"dev", "train"}
    strict, _ = sides(clips, found.table, texts, splits={"dev": 0.3}, disjoint=STRICT)
    assert strict == loose


def spoken(tmp: Path, readers: int, count: int, named: bool) -> list[dict[str, Any]]:
    """A JSONL source in which every reader reads the same prompts."""
    rows = []
    for reader in range(readers):
        for prompt in range(count):
            name = f"r{reader:02d}-{prompt}.wav"
            path = corpus.add(tmp / "in", prompt, seed=100 * reader + prompt, name=name)
            who = {"speaker": f"s{reader}"} if named else {}
            rows.append({"wav": str(path), "key": name, "txt": f"Prompt number {prompt}!", **who})
    corpus.jsonl(tmp / "list.jsonl", rows)
    return [{"kind": "jsonl", "path": str(tmp / "list.jsonl"), "name": "c"}]


@pytest.mark.full
def test_the_whole_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sources = spoken(tmp_path, 5, 6, named=True)
    package: dict[str, Any] = {"splits": {"dev": 0.2}, "tar_hours": 3 / 3600, "disjoint": LOOSE}

    def job(**change: Any) -> Any:
        return corpus.job(tmp_path, sources=sources, package={**package, **change})

    def run(**change: Any) -> Path:
        path: Path = corpus.run(job(**change))[0].path
        assert verify(path) == []
        return path

    loose = run()
    leaks = json.loads((loose / "dataset.json").read_text())["leaks"]
    clips = pq.read_table(loose / "utterances.parquet")
    in_dev = clips["split"].to_pylist().count("dev")
    assert leaks == {"dev": {"text": in_dev, "speaker": 0, "recording": 0, "audio": 0}}
    assert f"| dev | {in_dev} | 0 | 0 | 0 |" in (loose / "README.md").read_text()
    assert len(clips) == 30
    strict = run(disjoint=None, resplit=True)
    described = json.loads((strict / "dataset.json").read_text())
    assert described["leaks"] == {
        "dev": dict.fromkeys(("text", "speaker", "recording", "audio"), 0)
    }
    rows = corpus.utterances(strict)
    assert {row["split"] for row in rows} == {"train", "dev"}
    ledger = corpus.ledger(strict)
    lost = [row for row in ledger if row["reason"] == "text_in_two_splits"]
    assert len(lost) == 30 - len(rows) > 0
    assert {(row["outcome"], row["stage"]) for row in lost} == {("dropped", "package")}
    assert {row["detail"] for row in lost} == {"its text is in dev", "its text is in train"}
    assert described["reasons"]["package.text_in_two_splits"]["items"] == len(lost)
    # Nothing moves after that, and a version of the same is none.
    stays = run(disjoint=None)
    assert pq.read_table(stays / "splits.parquet").equals(pq.read_table(strict / "splits.parquet"))
    assert {*pq.read_table(stays / "utterances.parquet")["id"].to_pylist()} == {
        row["id"] for row in rows
    }
    assert run(disjoint=None) == stays
    # `what-if` tells what less would cost, and more.
    caplog.clear()
    now, then = what_if.kept(job(disjoint=None), job(disjoint=LOOSE, resplit=True))
    assert not caplog.records, "what the settings of now leave out, the run said"
    assert (now["items"], then["items"]) == (len(rows), 30)
    assert (now["leaks"]["dev"]["text"], then["leaks"]["dev"]["text"]) == (0, in_dev)
    now, then = what_if.kept(job(disjoint=LOOSE, resplit=True), job(disjoint=STRICT, resplit=True))
    assert "left out, because another split has their texts" in caplog.text
    assert now["items"] - then["items"] == len(lost)
    told = {"now": now, "then": then, "difference": {"items": 0, "hours": 0.0}}
    shown = said(results.what_if, {**told, "plan": {"changes": [], "stages": {}}})
    assert "Clips that share with train" in shown


@pytest.mark.nightly
def test_the_card_and_a_night_know_near_equal_texts(tmp_path: Path) -> None:
    text = "the quick brown fox of our street jumps over the lazy dog of hers"
    rows = [
        {"wav": str(corpus.add(tmp_path / "in", n)), "key": f"k{n}", "txt": f"{text} {n}"}
        for n in range(10)
    ]

    def run(count: int, **change: Any) -> Path:
        listed = "".join(json.dumps(row) + "\n" for row in rows[:count])
        (tmp_path / "list.jsonl").write_text(listed)
        sources = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
        package = {"splits": {"dev": 0.4}, **change}
        path: Path = corpus.run(corpus.job(tmp_path, sources=sources, package=package))[0].path
        assert verify(path) == []
        return path

    def leaking(version: Path) -> int:
        return int(json.loads((version / "dataset.json").read_text())["leaks"]["dev"]["text"])

    loose = run(6, disjoint=LOOSE)
    assert leaking(loose) > 0
    others = [f"{n} is another sentence" for n in range(4)]
    for row, other in zip(rows, others, strict=False):
        row["txt"] = other
    strict = run(6, disjoint=STRICT, resplit=True)
    assert leaking(strict) == 0
    [side] = {row["split"] for row in corpus.utterances(strict) if text in row["text"]}
    night = run(10, disjoint=STRICT)
    clips = corpus.utterances(night)
    assert {row["split"] for row in clips if text in row["text"]} == {side}
    assert leaking(night) == 0
