"""How a clip sounds in words: steps by bounds over the corpus, which freeze, and a caption."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.helpers.format_entries import entries
from tests.insight.test_report import recorded
from uttermill.flows import checks
from uttermill.flows.run import report
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import checked
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job
from uttermill.tasks.text import style

TEMPLATE = "{pitch} and {noise}"
STYLE = {"use": "style", "pitch": "rms", "rate": [], "noise": "peak", "template": TEMPLATE}


def asked(home: Path, **changes: Any) -> Job:
    """Levels stand for pitch and noise: any measure does, and these cost nothing."""
    package = {"formats": ["webdataset"], **changes.pop("package", {})}
    others = {name: changes.pop(name) for name in ("sources",) if name in changes}
    own = {**STYLE, "min_group": 5, **changes}
    transcribe = {"backend": {"use": "fake"}, "verdicts": [own]}
    filters = corpus.filters({"use": "rms"}, {"use": "peak"})
    return corpus.job(home, filter=filters, transcribe=transcribe, package=package, **others)


def recording(folder: Path, number: int, level: float) -> None:
    folder.mkdir(exist_ok=True)
    samples = corpus.speech(number, 0.5 + number / 100, 8000)
    sf.write(folder / f"r{number:02d}.wav", level * samples / np.abs(samples).max(), 8000)


def rows(version: Path) -> dict[str, dict[str, Any]]:
    table = corpus.utterances(version)
    return {Path(row["recording"]).stem: row for row in table}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for number in range(11):
        recording(tmp_path / "in", number, 0.05 + number * 0.05)
    return tmp_path


def test_steps_are_quantiles_of_the_corpus(home: Path) -> None:
    one, _ = corpus.run(asked(home))
    named = rows(one.path)
    steps = [named[f"r{n:02d}"]["style_noise"] for n in range(11)]
    wanted = ["very_high"] * 1 + ["high"] * 2 + ["middle"] * 4 + ["low"] * 2 + ["very_low"] * 2
    assert steps == wanted, "a high value is little noise"
    levels = np.array([row["rms"] for row in named.values()])
    edges = np.percentile(levels, [10, 30, 70, 90])
    for row in named.values():
        place = int((row["rms"] >= edges).sum())
        assert row["style_pitch"] == style.STEPS[place]
        phrases = style.PHRASES["pitch"][place], style.PHRASES["noise"]
        noise = phrases[1][style.STEPS.index(row["style_noise"])]
        assert row["style_caption"] == f"{phrases[0]} and {noise}"
        assert row["style_rate"] is None
    frozen = json.loads((one.path / "dataset.json").read_text())["frozen"]["text.style"]
    assert frozen["rms"][""] == pytest.approx(edges)
    values = json.loads((one.path / "dataset.json").read_text())["annotations"]["style_noise"]
    assert {entry["value"]: entry["utterances"] for entry in values["values"]} == {
        "very_high": 1, "high": 2, "middle": 4, "low": 2, "very_low": 2
    }  # fmt: skip
    assert verify(one.path) == []


def test_the_report_counts_steps(home: Path) -> None:
    job = asked(home)
    folder = recorded(job)
    text = report.page(job, folder).decode()
    section = text.partition('id="labels"')[2].partition("</section>")[0]
    assert {"style_pitch", "style_noise", "very_high"} <= {*re.findall(r"\w+", section)}
    assert "style_rate" not in section, "no clip has one"


def test_bounds_stay_and_a_refit_moves_them(home: Path) -> None:
    one, _ = corpus.run(asked(home))
    again, counts = corpus.run(asked(home))
    assert again.path == one.path
    assert not any(computed for computed, _ in counts.values())
    for number in range(11, 22):  # the second night is loud
        recording(home / "in", number, 0.9)
    two, _ = corpus.run(asked(home))
    before, after = rows(one.path), rows(two.path)
    assert len(after) == 22
    for name, row in before.items():
        assert after[name]["style_caption"] == row["style_caption"]
    assert {after[f"r{n}"]["style_noise"] for n in range(11, 22)} == {"very_low"}
    assert two.linked > 0
    three, _ = corpus.run(asked(home, package={"refit": True}))
    moved = rows(three.path)
    assert moved["r09"]["style_noise"] != after["r09"]["style_noise"]
    assert verify(two.path) == verify(three.path) == []


@pytest.mark.nightly
def test_what_is_said_stays_over_nights(tmp_path: Path) -> None:
    """Night by night, clips get louder, and a second language grows to `min_group`."""
    nights = [(8, 1), (4, 2), (5, 3), (3, 4)]  # recordings in English and German

    def job(**package: Any) -> Job:
        sources = [
            {"kind": "folder", "path": str(tmp_path / language), "name": language,
             "language": language}
            for language in ("en", "de")
        ]  # fmt: skip
        return asked(tmp_path, sources=sources, rate=["rms"], package=package)

    said: dict[str, dict[str, Any]] = {}
    bounds: dict[str, dict[str, list[float]]] = {}
    for night, counts in enumerate(nights):
        for place, (language, count) in enumerate(zip(("en", "de"), counts, strict=True)):
            for n in range(count):
                number = 40 * place + sum(row[place] for row in nights[:night]) + n
                recording(tmp_path / language, number, min(0.05 + 0.02 * number, 0.9))
        version, _ = corpus.run(job())
        now = rows(version.path)
        assert len(now) == sum(map(sum, nights[: night + 1]))
        frozen = json.loads((version.path / "dataset.json").read_text())["frozen"]["text.style"]
        for column, groups in bounds.items():
            for group, edges in groups.items():
                assert frozen[column][group] == edges, "a bound never moves"
        bounds = frozen
        assert ("de" in frozen["rms"]) == (night >= 2), "once it has five"
        for name, row in said.items():
            for label in ("style_pitch", "style_noise", "style_rate", "style_caption"):
                if row[label] is not None:
                    assert now[name][label] == row[label], "what was said stays"
        german = {row["style_rate"] for row in now.values() if row["language"] == "de"}
        assert (None in german) == (night < 2)
        said = now
        assert verify(version.path) == []
        assert not any(computed for computed, _ in corpus.run(job())[1].values())
    loud = [row["style_pitch"] for name, row in said.items() if 12 <= int(name[1:]) < 40]
    assert {*loud} == {"very_high"}, "bounds are those of the first night"
    refit = rows(corpus.run(job(refit=True))[0].path)
    assert {row["style_pitch"] for row in refit.values()} == {*style.STEPS}


def test_another_template_measures_nothing_and_writes_no_clip(home: Path) -> None:
    one, _ = corpus.run(asked(home))
    phrases = {"noise": ["klar", "gut", "normal", "rauschend", "laut"]}
    two, counts = corpus.run(asked(home, template="{noise}", phrases=phrases))
    assert all(counts[name][0] == 0 for name in ("filter", "resample", "transcribe"))
    assert two.written == 0 < two.linked
    assert {row["style_caption"] for row in rows(two.path).values()} == {*phrases["noise"]}
    before = {name: row["style_noise"] for name, row in rows(one.path).items()}
    assert {name: row["style_noise"] for name, row in rows(two.path).items()} == before


def test_a_published_caption_is_in_the_clips_of_formats(home: Path) -> None:
    one, _ = corpus.run(asked(home, package={"publish": ["style_caption"]}))
    captions = {row["id"]: row["style_caption"] for row in rows(one.path).values()}
    told = entries(one.path, "webdataset")
    assert {name: entry["style_caption"] for name, entry in told.items()} == captions
    assert verify(one.path) == []


def test_too_few_clips_have_no_steps(home: Path) -> None:
    one, _ = corpus.run(asked(home, min_group=12))
    for row in rows(one.path).values():
        assert {row[name] for name in style.ANNOTATIONS} == {None}


class Table:
    """Rows as a plug-in gets them."""

    def __init__(self, **columns: Any) -> None:
        self.table = pa.table(columns)

    def tables(self, *names: str) -> list[pa.Table]:
        return [self.table.select(names)]


def test_speed_is_compared_within_a_language() -> None:
    settings = checked(style.Settings, {"pitch": None, "noise": None, "template": "{rate}"}, "x")
    rates = [*np.linspace(10, 20, 30), *np.linspace(4, 8, 30)]
    latin, han = [*rates[:30], *[None] * 30], [*[None] * 30, *rates[30:]]
    given = {
        "language": ["en"] * 30 + ["zh"] * 30,
        "char_rate_alphabetic": pa.array(latin, pa.float64()),
        "char_rate_syllabic": pa.array(han, pa.float64()),
    }
    table: Any = Table(**given)
    none, edges = style.reject(table, settings, {})
    assert not [*none]
    assert {column: [*groups] for column, groups in edges.items()} == {
        "char_rate_alphabetic": ["en"], "char_rate_syllabic": ["zh"]
    }  # fmt: skip
    answer = style.labelled(pa.table(given), settings, edges)
    assert answer["style_rate"][:30] == answer["style_rate"][30:]
    assert answer["style_rate"][0] == "very_low"
    assert answer["style_caption"][29] == "very fast"
    _, more = style.reject(table, settings, {"char_rate_alphabetic": {"en": [1, 2, 3, 4]}})
    assert more["char_rate_alphabetic"]["en"] == [1, 2, 3, 4], "frozen"


def test_equal_clips_are_in_the_middle() -> None:
    settings = checked(style.Settings, {"rate": [], "noise": None, "template": "{pitch}"}, "x")
    same = pa.table({"language": ["en"] * 2, "pitch_median": [100.0, 100.0]})
    answer = style.labelled(same, settings, {"pitch_median": {"": [100.0] * 4}})
    assert answer["style_pitch"] == ["middle", "middle"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"template": "{loudness}"}, "asks for 'loudness'; measured are pitch, rate, noise"),
        ({"template": "{noise}", "noise": None}, "asks for 'noise'"),
        ({"phrases": {"volume": list("abcde")}}, "phrases names 'volume'"),
        ({"noise": "peek"}, "style goes by peek, which nothing measures"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    corpus.make(tmp_path / "in", 1)
    verdicts = [{"use": "char_rate"}, {"use": "style", **changes}]
    wishes = corpus.wishes(
        tmp_path,
        filter={"filters": [{"use": "pitch"}, {"use": "snr"}]},
        transcribe={"backend": {"use": "fake"}, "verdicts": verdicts},
    )
    with pytest.raises(ConfigError, match=message):
        checks.check_wishes(wishes)


def test_a_filter_may_label_by_the_corpus_too(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)

    def job() -> Job:
        return corpus.job(tmp_path, filter=corpus.filters({"use": "tests.plugins.relative"}))

    one, _ = corpus.run(job())
    assert [row["relative_side"] for _, row in sorted(rows(one.path).items())] == [
        "below", "below", "above"
    ]  # fmt: skip
    _, counts = corpus.run(job())
    assert not any(computed for computed, _ in counts.values())
    corpus.add(tmp_path / "in", 9)
    two, counts = corpus.run(job())
    assert counts["filter"] == (1, 3)
    assert [row["relative_side"] for _, row in sorted(rows(two.path).items())] == [
        "below", "below", "above", "above"
    ]  # fmt: skip
