"""The JSON of the commands on an OUT: status, ledger, what-if, list, schema, prune."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from ...tasks import plugins, storage
from ...tasks.accounting import summary
from ...tasks.base import logs, schema, shelves
from ...tasks.base.counting import counted
from ...tasks.base.errors import IN_THE_FILE, ConfigError, RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.schema import LEDGER_FILE
from ...tasks.insight import comparing
from ...tasks.insight.estimating.what_if import kept, with_same_texts
from ...tasks.publish import foreseen
from ...tasks.publish.dataset import datacard
from ...tasks.publish.published import Dataset
from ...tasks.publish.reason_meanings import MEANINGS
from ...tasks.publish.upkeep import forget as forgetting
from ...tasks.publish.upkeep import prune as pruning
from ...tasks.publish.upkeep.prune import KeptSettings
from ...tasks.shard_store import annotated, clip_choice, decision_log, enhanced, manifest, recipe
from ...tasks.storage import lock, tables, versions
from ...tasks.storage.queries import literal
from ...tasks.storage.versions import Proved
from ..run import ledger_items, plans, run_folder
from ..settings import PrepareSettings, assign, parse
from . import reviews

TRAIN, ALL = "train", "*"


def status(out: Path) -> JsonObject:
    settings = run_folder.settings_of(out)
    plan = plans.make(settings, lenient=True)
    newest = versions.newest(out)
    described = versions.described(newest) if newest else None
    return {
        "out": str(out),
        "shards": plan["shards"],
        "stages": {
            name: {"items_done": entry["reuse"], "items_to_compute": entry["compute"]}
            for name, entry in plan["stages"].items()
        },
        "removed": plan["removed"],
        "ignored": plan["ignored"],
        **{name: plan[name] for name in ("unlisted", "lost") if name in plan},
        "dataset": str(newest) if newest else None,
        "utterances": described["utterances"] if described else None,
        "seconds": described["seconds"] if described else None,
    }


def ledger(out: Path) -> JsonObject:
    """The newest version's ledger; that of the work so far if the newest run published nothing."""
    with versions.reading(newest := _published(out)):
        parts = _unpublished(out) if newest is None else _parts(newest)
        totals = summary.added(map(summary.totals, parts))
    reasons = set(totals.sums["reason"].to_pylist())
    published = versions.described(newest).get("meanings", {}) if newest else {}
    codes = {**MEANINGS, **{name.partition(".")[2]: text for name, text in published.items()}}
    return {
        "dataset": str(newest) if newest else None,
        **summary.of_totals(totals),
        "by_stage": summary.hours_by(totals.sums, "stage", "outcome", "reason"),
        "by_dataset": summary.hours_by(totals.sums, "dataset", "outcome", "reason"),
        "by_language": summary.hours_by(totals.sums, "language", "outcome", "reason"),
        "meanings": {code: text for code, text in codes.items() if code in reasons},
    }


def item_rows(
    out: Path, reason: str | None, dataset: str | None, texts: bool = False
) -> Iterator[JsonObject]:
    """The rows of `ledger`, and files that the newest run skipped; with `texts`, as
    `reviews.table`."""
    published = texts and _published(out) is not None
    spans = reviews.table(out, True) if published else ledger_items.spans(_items(out))
    return ledger_items.rows(spans, ledger_items.read_skipped(out), reason, dataset)


def known(out: Path) -> tuple[list[str], list[str]]:
    """The datasets and the reasons of all items."""
    skipped, keys = ledger_items.read_skipped(out), ["dataset", "stage", "reason"]
    names = {(file.dataset, f"shard.{file.reason}") for file in skipped}
    for part in _items(out):
        rows = part.select(keys).group_by(keys).aggregate([]).to_pylist()
        names |= {(row["dataset"], f"{row['stage']}.{row['reason']}") for row in rows}
    return sorted({dataset for dataset, _ in names}), sorted({reason for _, reason in names})


def _published(out: Path) -> Path | None:
    """The version of OUT's newest run; None if that run has published nothing."""
    ended = storage.exists(run_folder.newest(out) / run_folder.SUMMARY)
    return versions.newest(out) if ended else None


def _parts(version: Path) -> Iterator[pa.Table]:
    return tables.row_groups(version / LEDGER_FILE, opened=Proved(version))


def _unpublished(out: Path, others: bool = False) -> Iterator[pa.Table]:
    return foreseen.unpublished(run_folder.settings_of(out).job(), manifest.shards(out), others)


def _items(out: Path) -> Iterator[pa.Table]:
    """The ledger in portions; if the newest run has published nothing, that of the work so far,
    then what else the newest version holds."""
    with versions.reading(newest := _published(out)):
        yield from _unpublished(out, others=True) if newest is None else _parts(newest)


def asked_of(out: Path, sets: Sequence[str]) -> tuple[PrepareSettings, PrepareSettings]:
    """The settings of the newest run that ended well, because those of a refused one were not
    published; and the same with `sets`."""
    now = run_folder.settings_of(out, ended_well=True)
    data = now.model_dump(mode="json")
    assign(data, sets)
    return now, parse(data)


@logs.once()
def what_if(out: Path, sets: Sequence[str]) -> JsonObject:
    """Items and hours kept now and under changed settings, from stored results."""
    now, then = asked_of(out, sets)
    job, asked = now.job(), then.job()
    if asked.out != job.out:
        raise ConfigError("what-if is about one OUT: --set cannot change out")
    clip_choice.check(asked)
    newest = versions.newest(out)
    with versions.reading(newest):
        before, after = kept(job, with_same_texts(job, asked))
        lacking = after["unmeasured"]
        tried_again = 0
        if lacking and newest is not None:
            # Recordings whose failure may be that of a filter: a crash, a time-out.
            failed = Dataset(newest).query(
                "SELECT DISTINCT recording FROM ledger WHERE outcome = 'failed' "
                f"AND stage = 'filter' AND reason NOT IN ({', '.join(map(literal, IN_THE_FILE))})"
            )
            tried_again = failed.num_rows
    if lacking > tried_again or before["unmeasured"]:
        why = "which change what is measured and not only a threshold"
        if before["unmeasured"]:
            why = "nor for those of the last run: it did not finish, or another release made it"
        raise ConfigError(
            f"{counted(lacking, 'recording')} {'has' if lacking == 1 else 'have'} no stored "
            f"measures for these settings, {why}; use `uttermill run` with them"
        )
    return {
        "now": before,
        "then": after,
        "unknown": lacking,  # recordings that failed, which a run would try again
        "difference": {
            "items": after["items"] - before["items"],
            "hours": round(after["hours"] - before["hours"], 6),
        },
        "plan": plans.make(then, lenient=True),
    }


def data_list(
    dataset: Path, prefix: str | None, use: str | None = None, split: str | None = None
) -> JsonObject:
    """The clip list of a format (by default `wenet`, else the first that has one), for a split
    (train). `paths` are absolute, or relative ones after `prefix`; `others`: splits left out."""
    described = versions.described(dataset)
    formats = datacard.formats_of(described)
    chosen = _listed_format(dataset, list(formats), use)
    wanted, others = _splits(dataset, described["splits"], split)
    storage.refuse_links(dataset)
    module = plugins.FORMATS.load(chosen)
    assert module.listing is not None
    store, files = storage.store_of(dataset), versions.files(dataset)
    # A format of the user's own may write into a folder of another name than its module's.
    mine = (name for name in files if name.split("/")[0] not in formats.keys() - {chosen})
    lists = [name for name in mine if name.endswith(module.LISTS)]
    for name in versions.lost(dataset):
        folder, _, inside = name.partition("/")
        if folder not in formats.keys() - {chosen} and inside.split("/")[0] not in {"", *others}:
            raise RunError(
                f"{dataset.name} lacks {name}, or it is cut short; the next run makes a lost file "
                "of the newest version again"
            )
    with versions.reading(dataset), store.reading(dataset, lists) as home:
        for name in lists:  # a trainer would not notice that clips are missing
            if storage.hashed(home / name)[0] != files[name]["sha256"]:
                raise RunError(versions.differs(dataset, name))
        lines = module.listing(home, wanted, _head(dataset, prefix))
    return {"paths": lines, "format": chosen, "split": wanted, "others": others}


def _splits(dataset: Path, splits: Collection[str], asked: str | None) -> tuple[str, list[str]]:
    """The split that a list is of (`*` for all), and those that it leaves out."""
    wanted = TRAIN if asked is None else asked
    if wanted != ALL and wanted not in splits:
        raise ConfigError(
            f"{dataset} has no split {wanted!r}; it has {', '.join(splits)}: "
            "choose one with --split"
        )
    storage.check_name(wanted)
    return wanted, [] if wanted == ALL else [name for name in splits if name != wanted]


def list_since(
    dataset: Path, number: int, prefix: str | None, use: str | None, split: str | None
) -> JsonObject:
    """The clips of a split (train) that are new or changed since version `number` of the same OUT,
    and the ids of those lost since.

    `paths`: lines `id<TAB>split<TAB>new|changed`; with a format `use`, the lines of its list for
    these clips, or the paths of the files that hold them.
    """
    old = versions.numbered(dataset.parent.parent, number)
    if not versions.is_version(old):
        published = ", ".join(str(versions.number(v)) for v in versions.all_of(old.parent.parent))
        raise ConfigError(f"--since: {old} is no version; versions there: {published or 'none'}")
    described = versions.described(dataset)
    wanted, others = _splits(dataset, described["splits"], split)
    with versions.reading(old), versions.reading(dataset):
        since = comparing.since(old, dataset, None if wanted == ALL else wanted)
        answer: JsonObject = {"format": use, "split": wanted, "others": others, **since.as_dict()}
        if use is None:
            return {"paths": since.lines(), **answer}
        if use in datacard.formats_of(described) and not plugins.FORMATS.load(use).listing:
            return {"paths": since.files_of(use, wanted, _head(dataset, prefix)), **answer}
        every = data_list(dataset, prefix, use, split)["paths"]
        return {"paths": since.of_list(every, _head(dataset, prefix)), **answer}


def _head(dataset: Path, prefix: str | None) -> str:
    """What comes before the paths of a list. Empty asks for relative paths: before a slash it would
    name the root."""
    return (str(dataset) if prefix is None else prefix or ".").rstrip("/")


def _listed_format(dataset: Path, formats: list[str], use: str | None) -> str:
    # A dataset may name formats of its maker's own, which are only loaded when they are asked for.
    asked = sorted(formats, key="wenet".__ne__) if use is None else [use] if use in formats else []
    for name in asked:
        if plugins.FORMATS.load(name).listing:
            return name
    if use is None:
        able = [name for name in shelves.names("formats") if plugins.FORMATS.load(name).listing]
        raise ConfigError(
            f"{dataset} has no list of clips: no format in it ({', '.join(formats)}) has one; "
            f"package it with {', '.join(able[:-1])} or {able[-1]}"
        )
    if use in formats:
        raise ConfigError(
            f"{use} has no list of paths: its folder is read as it is, see {dataset / 'README.md'}"
        )
    raise ConfigError(f"{dataset} does not hold the format {use!r}; it holds {', '.join(formats)}")


def columns() -> JsonObject:
    rows = [
        (name, field.name, str(field.type), *schema.about(field))
        for name, table in schema.TABLES.items()
        for field in table
    ]
    measures = [
        plugins.columns(shelf, name) for shelf in plugins.MEASURING for name in shelves.names(shelf)
    ]
    rows += [
        ("measures", column, "double", *about)
        for described in (*measures, enhanced.after_columns())
        for column, about in described.items()
    ]
    rows += [
        ("annotations", name, kind.name, kind.unit, f"{kind.doc} ({kind.extent})")
        for name, kind in annotated.on_shelves().items()
    ]
    by_table: JsonObject = {}
    for table, *about in rows:
        column = dict(zip(("column", "type", "unit", "meaning"), about, strict=True))
        by_table.setdefault(table, []).append(column)
    return by_table


def prune(
    out: Path, keep: int, keep_runs: int | None = None, recipes: bool = False, yes: bool = False
) -> JsonObject:
    """List what neither a kept version nor the current settings need, by kind; with `yes`, remove
    it. `recipes`: also keep what the settings of the kept versions use. OutLocked when a run holds
    OUT."""
    if not yes:
        lock.refuse_held(out)
    with lock.hold(out) if yes else versions.steady(out):
        last = run_folder.settings_of(out).job()
        good = run_folder.settings_of(out, ended_well=True).job()
        jobs = [last] if last == good else [last, good]
        asked = [KeptSettings(job, recipe.weights(job.transcribe.recognisers)) for job in jobs]
        kept = pruning.kept_versions(out, keep)
        if recipes:
            asked += pruning.settings_of(out, kept)
        plan = pruning.plan(out, kept, asked, _old_runs(out, keep_runs))
        answer = plan.as_dict()
        if yes:
            pruning.carry_out(plan)
    return {**answer, "removed": yes}


def forget(out: Path, recording: str | None, speaker: str | None) -> JsonObject:
    with lock.hold(out):
        return asdict(forgetting.forget(out, recording, speaker, decision_log.now()))


def _old_runs(out: Path, keep: int | None) -> list[Path]:
    """Folders of runs older than the newest `keep`, except the newest run that ended well."""
    if keep is None:
        return []
    if keep < 1:
        raise ConfigError("--runs must be at least 1, because the newest run's settings are needed")
    every = [folder for folder in run_folder.folders(out) if not folder.name.startswith(".")]
    stay = {*every[:keep], run_folder.newest(out), run_folder.newest(out, ended_well=True)}
    return [folder for folder in reversed(every) if folder not in stay]
