"""What people see of a run and before it: `plan`, `run`, `demo`, `estimate` and `serve`."""

from __future__ import annotations

from collections.abc import Iterator

from rich import filesize
from rich.text import Text

from ....tasks.accounting import metrics
from ....tasks.base.counting import counted
from ....tasks.base.json_types import JsonObject
from ... import formatting
from ...formatting import clock, error_rates, forecast_rows, gigabytes, new_in_words
from .tables import Line, aside, broken, funnel, table

UNEXPLAINED = (
    "an earlier run did not finish, some of its files are gone or damaged, or another release "
    "made them"
)
HEARD = ("filter", "resample", "transcribe")  # stages that decide which clips there are
IDLE_SHARE = 0.7  # below it, an estimate reports that workers waited


def plan(result: JsonObject) -> Iterator[Line]:
    heads = ("stage", ">compute", ">reuse", ">audio", ">time", "because of")
    rows = []
    for name, entry in result["stages"].items():
        seconds = entry["seconds"]
        time = "" if not entry["compute"] else "unknown" if seconds is None else clock(seconds)
        audio = f"{entry['hours']:.2f} h" if entry["hours"] else ""
        because = ", ".join(entry["because"])
        rows.append((name, entry["compute"], entry["reuse"], audio, time, because))
    yield table("", heads, rows)
    yield from causes(result)
    if "unjudged" in result:
        yield at_most(result)
    if "gone" in result:
        yield f"At most: {'; '.join(result['gone'])}. What is left of earlier results is reused."
    if result["removed"]:
        yield f"{_removed(result)}."
    if "redescribed" in result:
        yield f"{_redescribed(result)}."
    if "lost" in result:
        yield lost(result)
    if "unusable" in result:
        items, first = result["unusable"]["items"], result["unusable"]["first"]
        which = first if items == 1 else f"the first is {first}"
        yield f"{counted(items, 'new recording')} cannot be used: {which}."
    if "refusal" in result:
        yield refusal(result)
    for sentence in result.get("stated", ()):
        yield f"{sentence}."
    for overlap in result.get("shared", ()):
        yield f"{overlap['says']}."
    yield from aside(result)
    yield from sources(result)
    yield _version(result)
    if any("sources" in entry["because"] for entry in result["stages"].values()):
        yield "New recordings count as good: only a run decodes and judges them."
    if result["seconds"] is None:
        yield (
            "The time is unknown until a run, or `uttermill estimate` with these settings, has "
            "measured these plug-ins."
        )


def sources(result: JsonObject) -> Iterator[str]:
    for source in result.get("sources", ()):
        for sentence in source["says"]:
            yield f"Source {source['source']}: {sentence}."


def before_run(result: JsonObject) -> Iterator[Line]:
    """Three lines: how much, why, and the result; a fourth if the run will be refused."""
    yield f"Plan: {_amounts(result)}."
    yield f"Because: {'; '.join(_reasons(result))}."
    time = result["seconds"]
    about = "Time unknown" if time is None else f"About {formatting.about(time)}"
    yield f"{about}; {_version(result)}"
    if "refusal" in result:
        yield refusal(result)


def at_most(result: JsonObject) -> str:
    clips = counted(result["unjudged"], "clip")
    return f"At most: filters have yet to measure {clips}, and what they drop goes no further."


def unlisted(result: JsonObject) -> str:
    return (
        f"Counted as the last run found the sources, which cannot be listed: {result['unlisted']}."
    )


def causes(result: JsonObject) -> list[str]:
    """A sentence for each setting that makes work: from what to what, and how much."""
    stages = result["stages"]
    lines = []
    for name, cause in _because(result).items():
        of_it = {stage: e for stage, e in stages.items() if name in e["because"]}
        durations = [entry["seconds"] for entry in of_it.values()]
        time = "" if None in durations else f", about {formatting.about(sum(durations))}"
        amounts: dict[str, list[str]] = {}  # stages, by how much each of them has to do
        for stage, entry in of_it.items():
            amount = f"{counted(entry['compute'], 'item')}, {entry['hours']:.2f} h"
            amounts.setdefault(amount, []).append(stage)
        named = []
        for amount, (*others, last) in amounts.items():
            several = f"{', '.join(others)} and {last}" if others else last
            named.append(f"{several} {amount}")
        lines.append(f"{cause}: {'; '.join(named)}{time}")
    return lines


def _because(result: JsonObject) -> dict[str, str]:
    """What makes work, in words, by its name in the stages' `because`."""
    changed = {change["setting"]: formatting.changed(change) for change in result["changes"]}
    names = (name for entry in result["stages"].values() for name in entry["because"])
    return {name: changed.get(name, "new or changed recordings") for name in names}


def _amounts(result: JsonObject) -> str:
    compute = {name: e["compute"] for name, e in result["stages"].items() if e["compute"]}
    reuse = {name: e["reuse"] for name, e in result["stages"].items() if e["reuse"]}
    parts = []
    if compute:
        hours = max(entry["hours"] for entry in result["stages"].values())
        unread = result.get("unread_bytes")
        size = f"{filesize.decimal(unread)}, not read yet" if unread else f"{hours:.2f} h of audio"
        most = "at most " if "unjudged" in result else ""
        parts.append(f"compute {most}{_counts(compute)} ({size})")
    parts.append(f"reuse {_counts(reuse)}" if reuse else "reuse nothing")
    return "; ".join(parts if compute else ["nothing to compute", *parts])


def _counts(items: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in items.items())


def _reasons(result: JsonObject) -> list[str]:
    if "layout" in result:
        return [f"{result['layout']}, so everything is computed once again"]
    reasons = ["results of earlier runs are gone"] if "gone" in result else []
    reasons += _because(result).values()
    if result["removed"]:
        reasons.append(_removed(result))
    if "redescribed" in result:
        reasons.append(_redescribed(result))
    if reasons:
        return reasons
    work = [name for name, entry in result["stages"].items() if entry["compute"]]
    if work == ["package"] and result["version"]["newest"] is None:
        return ["nothing has been published yet"]  # e.g. if an estimate's sample had everything
    if work:
        return [UNEXPLAINED]
    if result["changes"]:
        version = result["version"]
        none = " (no clip changes)" if version["clips"] == version["clips_then"] else ""
        return [f"{formatting.changed(change)}{none}" for change in result["changes"]]
    return ["nothing has changed since the last run"]


def _version(result: JsonObject) -> str:
    version = result["version"]
    if not version["new"]:
        return f"{version['newest']} stays as it is, with {counted(version['clips'], 'clip')}."
    if version["newest"] is None and result.get("unread_bytes"):
        return "this makes the first version."
    # Clips not yet cut or transcribed are predicted.
    heard = not any(entry["compute"] for name, entry in result["stages"].items() if name in HEARD)
    then = f"{'' if heard else 'about '}{counted(version['clips_then'], 'clip')}"
    holds = f"{'would' if 'refusal' in result else 'will'} hold {then}"
    if version["newest"] is None:
        return f"the first version {holds}."
    return f"a new version {holds}; {version['newest']} has {version['clips']:,}."


def refusal(result: JsonObject) -> str:
    """Only a run finds out whether new files hold the audio of missing ones."""
    new = result["removed"] and result["stages"]["shard"]["compute"]
    unless = " unless new recordings are the same files under other names" if new else ""
    return f"A run will refuse to publish{unless}: {result['refusal']}."


def lost(result: JsonObject) -> str:
    names = result["lost"]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"The newest version lacks {names[0]}{more}; the next run makes it again."


def _removed(result: JsonObject) -> str:
    count = result["removed"]
    verb = "has left its source" if count == 1 else "have left their sources"
    return f"{counted(count, 'recording')} {verb}"


def _redescribed(result: JsonObject) -> str:
    count, newest = result["redescribed"], result["version"]["newest"]
    have = "has" if count == 1 else "have"
    return f"{counted(count, 'clip')} of {newest} {have} another text, speaker or label now"


def run(result: JsonObject) -> Iterator[Line]:
    yield from funnel(result)
    yield from broken(result.get("broken", []), result["recordings"].get("failed", 0))
    for why, count in result.get("unreachable", {}).items():
        words = f"{counted(count, 'recording')} could not be read ({why}); the next run tries "
        yield Text(f"warning: {words}{'it' if count == 1 else 'them'} again", "yellow")
    yield from sources(result)
    computed = sum(s["items_computed"] for s in result["stages"].values())
    reused = sum(s["items_reused"] for s in result["stages"].values())
    if new := new_in_words(result):
        yield new
    if restored := result.get("restored"):
        first = restored[0] if len(restored) == 1 else f"{restored[0]} and {len(restored) - 1} more"
        yield f"Files that were gone are made again, with the published bytes: {first}."
    elif not computed and not result["new_version"]:
        yield f"Nothing was left to do: {counted(reused, 'item')} reused, 0 computed."
    else:
        rows = (
            (name, stage["items_computed"], stage["items_reused"], clock(stage["seconds"]))
            for name, stage in result["stages"].items()
        )
        yield table("", ("stage", ">computed", ">reused", ">worker time"), rows)
    if result["scored"]:
        yield error_rates(result)
    yield from _tars(result["tars"], result["new_version"])
    splits = result.get("splits", {})
    if len(splits) > 1:
        parts = (f"{name} {split['hours']:.3f} h" for name, split in splits.items())
        yield f"Splits: {', '.join(parts)}."
    for split, kinds in result.get("leaks", {}).items():
        shared = (f"{kind} {'unknown' if n is None else f'{n:,}'}" for kind, n in kinds.items())
        yield f"Clips of {split} that share something with train: {', '.join(shared)}."
    if any(result["deaths"].values()):
        d = result["deaths"]
        yield (
            f"Workers died {counted(d['deaths'], 'time')} and were stopped "
            f"{counted(d['timeouts'], 'time')}; {counted(d['isolated'], 'shard')} ran item by item."
        )
    for name in ("unknown_speakers", "telephone"):
        if name in result:
            yield Text(f"warning: {result[name]}", "yellow")
    for entry in result.get("reader_drops", []):
        yield Text(f"warning: {entry['warning']}", "yellow")
    yield from metrics.lines(result.get("stragglers", []))
    yield f"Dataset: {result['dataset']}  ({clock(result['wall_seconds'])})"


def _tars(tars: JsonObject, new: bool) -> Iterator[str]:
    if not new:
        return
    wrote = f"Wrote {counted(tars['written'], 'output shard')}"
    if tars["linked"]:
        wrote += f"; {counted(tars['linked'], 'output shard')} of the last version had not changed"
    yield f"{wrote}."
    if tars["readers"] > 1:
        worst = 60 * tars["worst_reader_extra_hours"]
        yield (
            f"Of {tars['readers']} readers (package.readers), the one with most audio gets "
            f"{worst:.1f} min more than the mean."
        )


def serve(result: JsonObject) -> Iterator[Line]:
    when = f"at {result['cron']} ({result['timezone']}), each after the one before it"
    when = when if result["cron"] else "on request only"
    yield f"Serving {result['deployment']}: {when}, until Ctrl-C."
    if result["paused"]:
        yield "The schedule is paused, as it was left in Prefect's UI; resume it there."
    yield f"Form, runs and results: {result['open']}"
    if result["alerts"]:
        yield "Runs that do not end well are posted to the address of --alert."
    if result["metrics"]:
        yield f"Metrics for Prometheus: {result['metrics']}"
    if result["auth"]:
        yield f"Password, for another browser or PREFECT_API_AUTH_STRING: {result['auth']}"


def estimate(result: JsonObject) -> Iterator[Line]:
    sampled, hours = result["sample"], result["hours"]
    yield (
        f"Sample: {sampled['recordings']} of {counted(sampled['of'], 'recording')}, "
        f"{sampled['hours']:.2f} of {hours['in']:.2f} h by header, "
        f"{counted(sampled['strata'], 'stratum', 'strata')}."
    )
    yield table("", ("forecast", ">expected", ">from", ">to"), forecast_rows(result))
    if result["computing"] is not None and result["computing"] < IDLE_SHARE:
        yield (
            f"Workers computed only {100 * result['computing']:.0f} % of the sample's time: they "
            "waited for a GPU, a server, or other programs on the machine. Without those waits a "
            "run takes less time."
        )
    if sampled["scored"]:
        yield (
            f"WER {100 * sampled['wer']:.1f} % on "
            f"{counted(sampled['scored'], 'sampled utterance')} with references."
        )
    if sampled["reasons"]:
        reasons = (f"{entry['items']} {name}" for name, entry in sampled["reasons"].items())
        yield f"Left out of the sample: {', '.join(reasons)}."
    yield f"Not included: {'; '.join(result['leaves_out'])}."
    if not result["fits"]:
        yield (
            f"The disk is too small: {gigabytes(result['free_bytes'])} are free. A run would be "
            "refused; cluster.check_disk: false overrides that."
        )
    yield (
        f"Estimate: {result['estimate']}  ({clock(result['wall_spent_seconds'])}). `uttermill run` "
        "with the same settings continues from there."
    )
