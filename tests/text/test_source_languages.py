"""Clips of a source that states no language are judged by the languages of the others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.plugins import guessing_asr
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import NothingLeft
from uttermill.tasks.insight import source_languages
from uttermill.tasks.publish.corpus import ROW
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.runs.executor import Executor, Observer
from uttermill.tasks.settings.job import Done
from uttermill.tasks.shard_store import manifest, recipe
from uttermill.tasks.shard_store import source_languages as source_votes
from uttermill.tasks.storage import versions
from uttermill.tasks.text.language import SourceLanguages

GUESSING = {"backend": {"use": "tests.plugins.guessing_asr"}}
EACH_ALONE = {**GUESSING, "language_by": "clip"}
Clip = tuple[str, float | None, float]  # language, its probability, s


def judged(
    *clips: Clip, order: int = 1, logprobs: Sequence[float | None] | None = None
) -> list[float]:
    """The probability of each clip's language in one source."""
    rows = [
        {"dataset": "c", "language": language, "language_probability": p, "seconds": s,
         "avg_logprob": logprob, "kept": True}
        for (language, p, s), logprob in zip(clips, logprobs or [None] * len(clips), strict=True)
    ][::order]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=ROW)
    parts = (table.slice(at, 7) for at in range(0, len(rows), 7))
    probability, _ = SourceLanguages(parts).judged(table)
    return [float(value) for value in probability[::order]]


def test_a_clip_alone_is_as_likely_as_it_says() -> None:
    assert judged(("he", 0.26, 4.0)) == [pytest.approx(0.26)]


def test_a_single_clip_in_another_language_has_to_be_nearly_certain() -> None:
    russian: list[Clip] = [("ru", 0.95, 4.0)] * 40
    found = judged(*russian, ("uk", 0.9, 4.0), ("uk", 0.999, 4.0), ("ru", 0.3, 1.0))
    assert found[40] < 0.3
    assert found[41] > 0.9
    assert found[42] > 0.8, "short and doubtful, but what all others are"


def test_a_text_counts_where_the_source_speaks_against_the_language() -> None:
    spanish: list[Clip] = [("es", 0.85, 4.0)] * 3
    english: list[Clip] = [("en", 0.97, 4.0)] * 25
    sure = judged(*english, *spanish, logprobs=[-0.3] * 28)
    unsure = judged(*english, *spanish, logprobs=[-0.3] * 25 + [-0.9] * 3)
    assert min(sure[25:]) > 0.5 > 0.2 > max(unsure[25:])
    assert judged(("he", 0.26, 4.0), logprobs=[-0.05]) == [pytest.approx(0.26)], "not by itself"


#: Whisper base on Spanish prompts and on English ones that it took for another language: language,
#: its probability, s; and the mean log-probability of the text.
SPANISH: list[tuple[Clip, float]] = [
    (("es", 0.54, 4.7), -0.07), (("es", 0.61, 4.0), -0.22), (("es", 0.78, 5.1), -0.16),
    (("es", 0.84, 4.6), -0.19), (("es", 0.9, 2.7), -0.35),
]  # fmt: skip
TAKEN_FOR_ANOTHER: list[tuple[Clip, float]] = [
    (("zh", 0.42, 0.3), -0.28), (("ru", 0.84, 0.6), -0.95), (("de", 0.39, 0.9), -0.91),
]  # fmt: skip


@pytest.mark.parametrize(("right", "clips"), [(True, SPANISH), (False, TAKEN_FOR_ANOTHER)])
def test_one_clean_sentence_stays_among_hundreds_in_another_language(
    right: bool, clips: list[tuple[Clip, float]]
) -> None:
    english: list[Clip] = [("en", 0.97, 5.0)] * 300
    for clip, logprob in clips:
        found = judged(*english, clip, logprobs=[-0.3] * 300 + [logprob])
        assert (found[-1] > 0.5) is right, (clip, found[-1])


def test_half_a_second_is_not_certain_of_a_language_that_others_speak_against() -> None:
    catalan: list[Clip] = [("ca", 0.8, 3.0)] * 2
    assert judged(*catalan, ("en", 0.95, 3.0))[-1] > 0.5
    assert judged(*catalan, ("en", 0.95, 0.5))[-1] < 0.5
    assert min(judged(*[("en", 0.95, 0.5)] * 20)) > 0.95, "others speak for it"
    assert judged(("en", 0.95, 0.5)) == [pytest.approx(0.95)], "nothing speaks against it"


def test_a_source_may_have_several_languages() -> None:
    found = judged(*[("en", 0.9, 4.0), ("de", 0.9, 4.0), ("zh", 0.7, 3.0)] * 10)
    assert min(found) > 0.5


def test_a_language_that_the_recogniser_does_not_know_is_another_one_each_time() -> None:
    heard = [("sn", 0.5), ("yo", 0.6), ("ln", 0.4), ("ht", 0.65), ("sw", 0.45), ("mg", 0.5)]
    found = judged(*((code, p, 4.0) for code, p in heard * 3))
    assert max(found) < 0.5


def test_latin_is_heard_in_languages_that_the_recogniser_does_not_know() -> None:
    esperanto: list[Clip] = [("el", 0.2, 3.4), ("ja", 0.3, 3.1), ("es", 0.8, 0.7)]
    heard = judged(("la", 0.93, 4.0), *esperanto, logprobs=[-0.75, -0.9, -0.8, -0.7])
    assert heard[0] < 0.5
    doubtful: list[Clip] = [("la", 0.4, 3.0)] * 6
    several = judged(*[("la", 0.8, 3.0)] * 2, *doubtful, *esperanto * 2)
    assert max(several) < 0.5
    in_french = judged(*[("fr", 0.9, 4.0)] * 4, *[("la", 0.8, 3.0)] * 4)
    assert max(in_french[4:]) < 0.5 < min(in_french[:4])


def test_recordings_in_latin_are_in_latin() -> None:
    assert judged(("la", 0.8, 4.0)) == [pytest.approx(0.8)], "nothing speaks against it"
    latin: list[Clip] = [("la", 0.85, 4.0)] * 6
    assert min(judged(*latin, ("it", 0.6, 3.0), ("es", 0.5, 2.0))[:6]) > 0.7
    assert judged(*[("it", 0.9, 4.0)] * 2, ("la", 0.99, 4.0), logprobs=[-0.3] * 3)[2] > 0.8


def test_minutes_of_noise_doubt_the_one_clip_with_words() -> None:
    assert judged(*[("en", 0.0, 10.0)] * 30, ("en", 0.8, 1.0))[-1] < 0.5


def test_what_the_source_states_is_not_judged() -> None:
    assert np.isnan(judged(("en", None, 4.0), ("de", 0.9, 4.0))[0])


def test_order_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    clips = [(str(rng.choice(["en", "de", "cy"])), float(p), float(s))
             for p, s in rng.uniform([0.1, 0.3], [1, 20], (100, 2))]  # fmt: skip
    assert judged(*clips) == judged(*clips, order=-1)


def job(tmp: Path, numbers: range, transcribe: Any = EACH_ALONE, **changes: Any) -> Any:
    """Recordings of less than 0.9 s, the first three, are heard in Welsh."""
    for number in numbers:
        corpus.add(tmp / "in", number)
    sources = [{"kind": "folder", "path": str(tmp / "in"), "name": "c"}]
    return corpus.job(tmp, sources=sources, transcribe=transcribe, **changes)


def outcomes(version: Path) -> dict[str, str]:
    rows = corpus.ledger(version)
    return {r["recording"]: f"{r['stage']}.{r['reason']}" for r in rows if r["utterance"]}


def test_a_run_drops_short_clips_in_a_language_that_no_other_is_in(tmp_path: Path) -> None:
    whole = job(tmp_path, range(10))
    published, _ = corpus.run(whole)
    found = outcomes(published.path)
    dropped = {name for name, why in found.items() if why == "package.language_unlikely"}
    assert dropped == {"c/r00.wav", "c/r01.wav", "c/r02.wav"}
    assert set(found.values()) == {"package.language_unlikely", "package.packaged"}
    again, _ = corpus.run(whole)
    assert not again.new
    says = source_languages.of_sources(whole)["c"]
    assert says.endswith("if all of it is en, set language: en")
    assert [note["says"][-1] for note in source_languages.notes(whole)] == [says]
    # Stated in the settings, it is no question.
    stated = [{**whole.sources[0].model_dump(), "language": "en"}]
    assert not source_languages.of_sources(
        corpus.job(tmp_path, sources=stated, transcribe=GUESSING)
    )


def test_what_is_published_stays(tmp_path: Path) -> None:
    first, _ = corpus.run(job(tmp_path, range(2)))
    assert set(outcomes(first.path).values()) == {"package.packaged"}, "both are Welsh, so it is"
    second, _ = corpus.run(job(tmp_path, range(2, 10)))
    found = outcomes(second.path)
    assert found["c/r00.wav"] == found["c/r01.wav"] == "package.packaged"
    assert found["c/r02.wav"] == "package.language_unlikely"


def test_shards_change_nothing(tmp_path: Path) -> None:
    one, _ = corpus.run(job(tmp_path / "one", range(10), shard={"hours": 1.0}))
    many, _ = corpus.run(job(tmp_path / "many", range(10), shard={"hours": 0.0003}))
    assert len(pq.read_table(many.path / "ledger.parquet")["recording"].unique()) == 10
    assert outcomes(one.path) == outcomes(many.path)


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    verdicts = [{"use": "language", "min_in_source": None}]
    whole = job(tmp_path, range(10))
    loose = corpus.job(
        tmp_path, sources=whole.sources, transcribe={**EACH_ALONE, "verdicts": verdicts}
    )
    published, _ = corpus.run(loose)
    assert set(outcomes(published.path).values()) == {"package.packaged"}


def rows(version: Path) -> dict[str, Any]:
    return {row["recording"]: row for row in corpus.utterances(version)}


def test_doubtful_clips_are_heard_again_in_the_language_of_their_source(tmp_path: Path) -> None:
    whole = job(tmp_path, range(10), GUESSING)
    version, counts = corpus.run(whole)
    assert set(outcomes(version.path).values()) == {"package.packaged"}
    assert {row["text"] for row in rows(version.path).values()} == {"some words in en"}
    heard = [row["detected_language"] for _, row in sorted(rows(version.path).items())]
    assert heard == ["cy"] * 3 + ["en"] * 7
    assert counts["transcribe"] == (10, 0)
    assert versions.described(version.path)["frozen"][source_votes.FROZEN] == {"c": ["en"]}
    again, counts = corpus.run(whole)
    assert (again.new, counts["transcribe"]) == (False, (0, 10))
    (shard,) = manifest.shards(whole.out)
    view = prune._View(
        prune.KeptSettings(whole, recipe.weights(whole.transcribe.recognisers)), shard, None
    )
    assert len(view.transcripts) == 13
    assert view.transcripts.keys() <= view.wanted_texts, "prune keeps both texts of a clip"


class Steps(Observer):
    """Asks each step what it did, as Prefect's tasks do."""

    def __init__(self) -> None:
        self.done: list[Done] = []

    def step(self, name: str, work: Any, shard: str = "", seconds: float = 0.0) -> Any:
        result = work()
        self.done.append(result if isinstance(result, Done) else result.done)
        return result


def test_each_step_of_a_run_that_hears_clips_again_says_what_it_did(tmp_path: Path) -> None:
    steps = Steps()
    pipeline.run(job(tmp_path, range(10), GUESSING), Executor(), steps)
    heard = [done.computed for done in steps.done if done.stage == "transcribe"]
    assert heard == [10, 3]
    assert [done.new for done in steps.done if done.stage == "package"] == [False, True]


@pytest.mark.parametrize(
    ("name", "value", "probability"),
    [("LOGPROB", -0.05, 0.76), ("PROBABILITY", 0.95, 0.95)],  # 4 words are exp(5 * 0.15) as likely
)
def test_a_surer_text_and_a_sure_language_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float, probability: float
) -> None:
    monkeypatch.setattr(guessing_asr, f"GUESSED_{name}", value)
    whole = job(tmp_path, range(10), {**GUESSING, "verdicts": [{"use": "empty_text"}]})
    version, counts = corpus.run(whole)
    texts = [row["text"] for _, row in sorted(rows(version.path).items())]
    assert texts == ["some words in cy"] * 3 + ["some words in en"] * 7
    row = rows(version.path)["c/r00.wav"]
    assert row["language_probability"] == pytest.approx(probability, abs=0.005)
    assert counts["transcribe"] == (10, 0)


def test_texts_do_not_depend_on_the_order_in_which_recordings_came(tmp_path: Path) -> None:
    at_once, _ = corpus.run(job(tmp_path / "one", range(10), GUESSING, shard={"hours": 0.0003}))
    first, _ = corpus.run(job(tmp_path / "two", range(2), GUESSING))
    assert {row["text"] for row in rows(first.path).values()} == {"some words in cy"}
    grown, _ = corpus.run(job(tmp_path / "two", range(2, 10), GUESSING))
    assert rows(grown.path).keys() == rows(at_once.path).keys()
    for name, row in rows(at_once.path).items():
        assert rows(grown.path)[name]["text"] == row["text"]


def test_a_run_that_died_before_it_heard_them_again_ends_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = job(tmp_path, range(10), GUESSING)
    with monkeypatch.context() as during:
        during.setattr(guessing_asr, "REFUSED", "en")
        with pytest.raises(KeyboardInterrupt):
            corpus.run(whole)
    version, counts = corpus.run(whole)
    assert counts["transcribe"] == (3, 7)
    assert {row["text"] for row in rows(version.path).values()} == {"some words in en"}


@pytest.mark.parametrize(
    ("clips", "spoken"),
    [
        ([("en", 0.95, 9.0)] * 9 + [("la", 0.4, 2.0)], {"c": ["en"]}),
        ([("en", 0.95, 9.0)] * 9 + [("de", 0.95, 5.0), ("la", 0.4, 2.0)], {"c": ["en", "de"]}),
        ([("en", 0.95, 9.0)] * 9 + [("de", 0.95, 3.0), ("la", 0.4, 2.0)], {"c": ["en"]}),
        ([("en", 0.95, 9.0)] * 9 + [("de", 0.95, 3.0)], {}),  # nothing is doubtful
        ([("en", 0.95, 9.0), ("la", 0.4, 2.0)], {}),  # too few
        ([("en", 0.4, 9.0)] * 9 + [("la", 0.4, 2.0)], {}),  # music
    ],
)
def test_a_sources_languages_are_elected_by_its_speech(
    clips: list[Clip], spoken: dict[str, list[str]]
) -> None:
    columns = zip(*[("c", *clip) for clip in clips], strict=True)
    heard = pa.table([*columns], ["dataset", "language", "probability", "seconds"])
    assert source_votes.vote([heard]) == spoken


def test_a_text_in_the_wrong_script_is_dropped_however_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guessing_asr, "TEXT", "какие-то слова")
    changed = job(tmp_path, range(10), {**GUESSING, "verdicts": [{"use": "language"}]})
    with pytest.raises(NothingLeft, match=r"10 transcribe\.wrong_script"):
        corpus.run(changed)
