"""`package.exclude`: no clip has nearly a text, or the sound, of a test set."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tests.helpers import corpus
from uttermill.flows.cli.command_line import main
from uttermill.flows.settings import of_mapping
from uttermill.tasks.base.errors import ConfigError, TooManyFailed
from uttermill.tasks.base.json_types import Arrived
from uttermill.tasks.insight.estimating import planning, what_if
from uttermill.tasks.publish.corpus import held_out
from uttermill.tasks.settings import FilterSettings, Source
from uttermill.tasks.settings.job import Job

LONG = "a train of eleven wagons left the old harbour early on a cold morning"
PRINTS = corpus.filters({"use": "duplicate", "drop": False})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten recordings with texts, packaged once without test sets; copies of two in `test`."""
    home = tmp_path_factory.mktemp("held_out")
    corpus.make(home / "in")
    texts = {"r01": "turn on the light", "r02": "Yes.", "r03": LONG.replace("cold", "warm")}
    corpus.listed(home / "in", 10, home / "list.jsonl", **texts)
    test = home / "test"
    test.mkdir()
    for number, gain, kind in ((8, 1.0, "flac"), (9, 0.5, "ogg")):
        samples, rate = sf.read(home / "in" / f"r{number:02d}.wav", dtype="float32")
        sf.write(test / f"t{number}.{kind}", samples * gain, rate)
    (test / "t8.txt").write_text("something else is said in this one")
    (home / "texts.txt").write_text(f"Turn on the LIGHT!\n{LONG}\n\nyes\n")
    corpus.run(asked(home))
    return home


def asked(home: Path, *exclude: dict[str, Any], **package: Any) -> Job:
    sources = [{"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c", "language": "en"}]
    sets = [{**one, "path": str(home / one["path"])} for one in exclude]
    return corpus.job(home, sources=sources, filter=PRINTS, package={"exclude": sets, **package})


def dropped(version: Path) -> dict[str, tuple[str, float]]:
    """The detail and value of each clip that met a test set, by its file."""
    ledger = corpus.ledger(version)
    met = [row for row in ledger if row["reason"] == "in_test_set"]
    assert {(row["stage"], row["outcome"]) for row in met} <= {("package", "dropped")}
    return {Path(row["source_path"]).stem: (row["detail"], row["value"]) for row in met}


def test_clips_with_a_text_or_the_sound_of_a_test_set_are_dropped(base: Path) -> None:
    """And what-if and plan say so before, nothing else is computed, and the card counts them."""
    now = asked(base)
    corpus.run(now)
    then = asked(base, {"kind": "texts", "path": "texts.txt"}, {"path": "test", "name": "golden"})
    plan = planning.plan(then, now)
    assert what_if.kept(now, then)[1]["items"] == plan.clips[1] == 6
    published, counts = corpus.run(then)
    assert all(computed == 0 for name, (computed, _) in counts.items() if name != "package")
    met = dropped(published.path)
    assert {name: detail for name, (detail, _) in met.items()} == {
        "r01": "the text of line 1 in the test set texts",
        "r03": "nearly the text of line 2 in the test set texts",
        "r08": "the samples of golden/t8.flac in the test set golden",
        "r09": "the sound of golden/t9.ogg in the test set golden",
    }
    assert met["r01"][1] == 1
    assert 0.6 < met["r03"][1] < 1
    assert met["r08"][1] == 0
    described = json.loads((published.path / "dataset.json").read_text())
    sets = {one["name"]: (one["texts"], one["sounds"], one["clips"])
            for one in described["test_sets"]}  # fmt: skip
    assert sets == {"texts": (2, 0, 2), "golden": (1, 2, 2)}
    assert described["reasons"]["package.in_test_set"]["items"] == 4
    card = (published.path / "README.md").read_text()
    assert "| golden | 1 | 2 | 0 | 0 | 2 |" in card
    assert str(base) not in card
    assert not corpus.run(then)[0].new, "nothing changed"
    assert dropped(corpus.run(now)[0].path) == {}


def test_plan_foresees_what_sources_state_and_names_what_only_a_run_can_know(
    base: Path, tmp_path: Path
) -> None:
    """Before anything is computed, and where only fingerprints are still to be taken."""
    rows = (base / "list.jsonl").read_text().splitlines()
    rows = [json.dumps({**json.loads(row), "speaker": f"s{n}"}) for n, row in enumerate(rows)]
    (base / "named.jsonl").write_text("\n".join(rows))
    theirs = {"audio": str(base / "in" / "r00.wav"), "speaker": "s5", "text": "nobody says it here"}
    (base / "names.jsonl").write_text(json.dumps(theirs))
    texts, names = {"kind": "texts", "path": "texts.txt"}, {"kind": "jsonl", "path": "names.jsonl"}
    mine = [{"kind": "jsonl", "path": str(base / "named.jsonl"), "name": "c", "language": "en"}]
    then = replace(
        asked(base, texts, {**names, "by": ["speaker"]}, {"path": "test"}),
        sources=tuple(map(Source.model_validate, mine)),
        out=tmp_path / "out",
    )
    without = then.package.model_copy(update={"exclude": ()})
    before = replace(then, package=without, filter=FilterSettings(**corpus.filters()))
    for job_before in (None, before):
        if job_before is not None:
            corpus.run(job_before)
        plan = planning.plan(then, job_before)
        assert plan.clips[1] == 7
        first, second = (one for one in plan.stated if one.startswith("package.exclude"))
        assert "3 clips still to be computed will be dropped" in first
        assert "any of 7 clips" in second
        assert second.endswith("only a run knows their sound")
    assert [*dropped(corpus.run(then)[0].path)] == ["r01", "r03", "r05", "r08", "r09"]
    assert not any("package.exclude" in one for one in planning.plan(then, then).stated)


def test_a_set_that_grows_makes_a_new_version(base: Path) -> None:
    more = base / "more.txt"
    more.write_text("no clip says this one\n")
    then = asked(base, {"kind": "texts", "path": "more.txt"})
    assert dropped(corpus.run(then)[0].path) == {}
    more.write_text("no clip says this one\nreference number 5\nreference number 6 of it\n")
    assert dropped(corpus.run(then)[0].path) == {}, "texts of three words are not compared"
    fewer = asked(base, {"kind": "texts", "path": "more.txt", "min_words": 3})
    assert [*dropped(corpus.run(fewer)[0].path)] == ["r05"]
    corpus.run(asked(base))


def test_hashes_drop_what_the_set_drops_and_hold_no_text(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, path, more in (("a", "texts.txt", []), ("b", "test", ["--sound"])):
        out = base / f"{name}.parquet"
        assert main(["test-set", str(base / path), "--out", str(out), "--json", *more]) == 0
        answer = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (answer["texts"], answer["sounds"]) == ((2, 0) if name == "a" else (1, 2))
    data = (base / "a.parquet").read_bytes()
    assert not any(word.encode() in data for word in ("light", "train", "harbour", "wagons"))
    hashed = asked(
        base, {"kind": "hashes", "path": "a.parquet"}, {"kind": "hashes", "path": "b.parquet"}
    )
    assert [*dropped(corpus.run(hashed)[0].path)] == ["r01", "r03", "r08", "r09"]
    only_text = asked(base, {"kind": "hashes", "path": "b.parquet", "by": ["text"]})
    assert dropped(corpus.run(only_text)[0].path) == {}
    corpus.run(asked(base))


def test_figures_in_texts_of_an_unknown_language_are_read_in_every_language(
    base: Path, tmp_path: Path
) -> None:
    (base / "figures.txt").write_text("Da sind 21 Kinder.\nVoici 21 chats gris\n")
    spoken = {"r01": "da sind einundzwanzig kinder", "r02": "voici vingt et un chats gris"}
    lines = corpus.listed(base / "in", 3, tmp_path / "l", **spoken).read_text().splitlines()
    languages = ("en", "de", "fr")
    said = [
        {**json.loads(line), "language": code} for line, code in zip(lines, languages, strict=True)
    ]
    (base / "said.jsonl").write_text("\n".join(map(json.dumps, said)))
    source = {"kind": "jsonl", "path": str(base / "said.jsonl"), "name": "c"}
    chosen = asked(base, {"kind": "texts", "path": "figures.txt"})
    job = replace(chosen, sources=(Source.model_validate(source),), out=tmp_path / "out")
    assert [*dropped(corpus.run(job)[0].path)] == ["r01", "r02"]


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        ({"kind": "texts", "path": "gone.txt"}, "gone.txt cannot be read: No such file"),
        ({"kind": "texts", "path": "empty.txt"}, "empty.txt has no texts"),
        ({"kind": "texts", "path": "texts.txt", "by": ["audio"]}, "has no sound to compare"),
        ({"kind": "texts", "path": "texts.txt", "by": ["speaker"]}, "has no speaker to compare"),
        ({"kind": "folder", "path": "test", "by": ["speaker"]}, "test states a speaker"),
        ({"kind": "folder", "path": "in", "by": ["text"]}, "no item of .* has a text"),
        ({"kind": "texts", "path": "texts.txt", "channels": "mix"}, "has no 'channels'"),
        ({"kind": "hashes", "path": "texts.txt"}, "is not a file of hashes"),
        ({"kind": "folder", "path": "gone"}, "gone"),
        ({"kind": "foldre", "path": "test"}, "did you mean"),
        ({"kind": "folder", "path": "test", "speekers": 1}, "speekers"),
    ],
)
def test_a_set_that_cannot_be_read_is_refused(
    base: Path, one: dict[str, Any], sentence: str
) -> None:
    (base / "empty.txt").write_text("\n")
    with pytest.raises(ConfigError, match=sentence):
        held_out.check(asked(base, one))


def test_sound_is_compared_without_a_filter_being_named(base: Path) -> None:
    settings = {
        "sources": [{"kind": "folder", "path": str(base / "in")}],
        "out": str(base / "other"),
        "package": {"exclude": [{"kind": "folder", "path": "~/test"}]},
    }
    job = of_mapping(settings).job()
    assert job.filter.filters[-1].options == {"drop": False}
    assert job.package.exclude[0].path.startswith("/")
    settings["package"] = {"exclude": [{"kind": "folder", "path": "x", "by": ["text"]}]}
    assert "duplicate" not in {one.use for one in of_mapping(settings).job().filter.filters}


def test_speakers_of_a_test_set_are_kept_out_by_name(tmp_path: Path) -> None:
    """Of a clip, and of each turn of a clip that holds several; nothing is computed again."""
    corpus.make(tmp_path / "in", 4)
    paths = [str(path) for path in sorted((tmp_path / "in").iterdir())]

    def listed(name: str, lines: list[dict[str, Any]]) -> dict[str, str]:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        return {"kind": "jsonl", "path": str(path), "name": name}

    mine: list[dict[str, Any]] = [
        {"audio": paths[0], "speaker": "ada"},
        {"audio": paths[1], "speaker": "ben"},
        {"audio": paths[2]},
        {"audio": paths[3], "start": 0.0, "end": 0.3, "speaker": "eva"},
        {"audio": paths[3], "start": 0.3, "end": 0.5, "speaker": "dora"},
    ]
    theirs = [{"audio": paths[0], "speaker": "ben"}, {"audio": paths[1], "speaker": "dora"}]
    sources, one = [listed("c", mine)], listed("golden", theirs)
    corpus.run(corpus.job(tmp_path, sources=sources))
    exclude = [{**one, "by": ["speaker"]}]
    chosen = corpus.job(tmp_path, sources=sources, package={"exclude": exclude})
    published, counts = corpus.run(chosen)
    assert all(computed == 0 for name, (computed, _) in counts.items() if name != "package")
    first, second = (Path(path).name for path in paths[:2])
    assert {detail for detail, _ in dropped(published.path).values()} == {
        f"the speaker ben of golden/in/{first} in the test set golden",
        f"the speaker dora of golden/in/{second} in the test set golden",
    }
    assert "| golden | 0 | 0 | 0 | 2 | 2 |" in (published.path / "README.md").read_text()


# What is new in a run: its own numbers, and the refusal where most of it is broken.

LOOSE = {"max_failed_fraction": 1.0}


def broken(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"z{number}.wav").write_bytes(b"RIFF" + bytes(range(200)))


def arrive(home: Path, good: int, bad: int) -> None:
    """Files of the second night beside those of the first."""
    for number in range(good):
        corpus.add(home / "in", number, seed=100 + number, name=f"new-r{number:02d}.wav")
    broken(home / "in", bad)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", 4)
    return tmp_path


def run(home: Path, **package: Any) -> Arrived:
    published, _ = corpus.run(corpus.job(home, package={**LOOSE, **package}))
    assert published.arrived is not None
    return published.arrived


def test_the_first_version_is_all_new(home: Path) -> None:
    broken(home / "in", 3)
    new = run(home)
    assert (new["recordings"], new["failed"]) == (7, 3)
    assert new["packaged"] > 0
    again, _ = corpus.run(corpus.job(home, package=LOOSE))
    assert (again.new, again.arrived) == (False, None)


def test_numbers_of_a_night_are_its_own(home: Path) -> None:
    first = run(home)
    arrive(home, good=2, bad=1)
    (home / "in" / "quiet.wav").write_bytes(corpus_silence(home))
    new = run(home)
    assert (new["recordings"], new["failed"]) == (4, 1)
    assert new["dropped"] == 1
    assert 0 < new["packaged"] < first["packaged"] + new["packaged"]


def corpus_silence(home: Path) -> bytes:
    import numpy as np
    import soundfile

    soundfile.write(home / "quiet.wav", np.zeros(32000, np.int16), 16000)
    return (home / "quiet.wav").read_bytes()


def test_a_night_of_broken_files_is_refused(home: Path) -> None:
    run(home)
    arrive(home, good=1, bad=5)
    for _ in range(2):  # another try changes nothing
        with pytest.raises(
            TooManyFailed, match=r"^5 of 6 new recordings failed, more than"
        ) as told:
            run(home)
    assert "package.max_new_failed_fraction (0.5)" in told.value.args[0]
    assert len(told.value.broken) == 5
    assert "z0.wav" in told.value.broken[0]
    assert not (home / "out/datasets/v0002").exists()
    assert run(home, max_new_failed_fraction=0.9) == {
        "recordings": 6, "packaged": 1, "dropped": 0, "failed": 5,
    }  # fmt: skip


def test_one_broken_file_alone_holds_up_no_night(home: Path) -> None:
    run(home)
    broken(home / "in", 1)
    assert run(home)["failed"] == 1


def test_a_source_that_may_be_broken_is_exempt(home: Path) -> None:
    spared = [{"kind": "folder", "path": str(home / "in"), "name": "c", "expect_broken": True}]
    corpus.run(corpus.job(home, sources=spared))
    arrive(home, good=1, bad=5)
    published, _ = corpus.run(corpus.job(home, sources=spared))
    assert published.arrived is not None
    assert published.arrived["failed"] == 5


def test_the_limit_is_in_no_version(home: Path) -> None:
    """So that versions of earlier releases stay as they are."""
    run(home, max_new_failed_fraction=0.4)
    described = json.loads((home / "out/datasets/v0001/dataset.json").read_text())
    assert "max_new_failed_fraction" not in described["settings"]["package"]
