"""Output of commands that only read: status, ledger, what-if, verify, plugins, schema, …"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ....tasks.base.counting import counted
from ....tasks.base.json_types import JsonObject
from ....tasks.recording import yaml_text
from ...formatting import clock
from . import runs
from .tables import Line, funnel, table


def status(result: JsonObject) -> Iterator[Line]:
    stages = result["stages"].items()
    rows = ((name, entry["items_done"], entry["items_to_compute"]) for name, entry in stages)
    yield result["out"]
    yield table("", ("stage", ">done", ">to compute"), rows)
    newest = result["dataset"] or "none yet"
    yield f"{counted(result['shards'], 'shard')}; newest dataset: {newest}"
    if "lost" in result:
        yield runs.lost(result)
    if "unlisted" in result:
        yield runs.unlisted(result)


def ledger(result: JsonObject) -> Iterator[Line]:
    if result["dataset"] is None:
        yield (
            "No version holds this: it is the work done so far, and may go on. Only what the "
            "newest version holds, too, counts as packaged."
        )
    yield from funnel(result)
    for key in ("dataset", "language"):
        rows = [
            (row[key] or "–", row["outcome"], reason(row), row["items"], clock(row["hours"] * 3600))
            for row in result[f"by_{key}"]
        ]
        if rows:
            yield table(f"by {key}", (key, "outcome", "reason", ">items", ">audio"), rows)
    for code, meaning in result["meanings"].items():
        yield Text(f"{code}: {meaning}", "dim")


def reason(row: JsonObject) -> str:
    """The reason; empty where the ledger repeats the outcome, as for packaged clips."""
    return "" if row["reason"] == row["outcome"] else str(row["reason"])


def items(result: JsonObject) -> Iterator[Line]:
    for row in result["items"]:
        parts = (f" {name} {row[name]}" for name in ("track", "channel") if row[name] is not None)
        span = "" if row["start"] is None else f" {row['start']:.2f}-{row['end']:.2f} s"
        value = "" if row["value"] is None else f" ({row['value']:g}, limit {row['threshold']:g})"
        detail = f": {row['detail']}" if row["detail"] else ""
        line = f"{row['outcome']} {row['stage']}.{row['reason']}{value}{detail}"
        yield f"{row['source_path']}{''.join(parts)}{span}  {line}"
    yield f"{counted(len(result['items']), 'item')}."


def explore(result: JsonObject) -> Iterator[Line]:
    yield f"Explorer of version {result['version']}: {result['url']}"
    yield "It answers this machine only. From another one, forward the port there, then"
    yield f"open the same address: {result['tunnel']}"
    yield "Ctrl-C ends it."


def imported(result: JsonObject) -> Iterator[Line]:
    before = result["already_there"]
    more = f"; {before} {'was' if before == 1 else 'were'} there already" if before else ""
    kinds = ", ".join(f"{count} {name}" for name, count in result["by_decision"].items())
    kinds = f" ({kinds})" if kinds else ""
    stored = counted(result["imported"], "decision")
    yield f"{stored} stored{kinds}{more}. The next run applies them."
    if count := result["unknown_count"]:
        some = ", ".join(result["unknown"][:3])
        more = ", …" if count > 3 else ""
        yield f"The newest version does not hold {counted(count, 'utterance')}: {some}{more}."


def report(result: JsonObject) -> Iterator[Line]:
    yield f"Report: {result['report']}"


def what_if(result: JsonObject) -> Iterator[Line]:
    sides = ((name, result[name]) for name in ("now", "then"))
    rows = (
        (name, entry["items"], f"{entry['hours']:.3f}", entry["not_yet_transcribed"]["items"])
        for name, entry in sides
    )
    yield table("", ("", ">items", ">hours", ">of these not transcribed yet"), rows)
    change = result["difference"]
    sign = "-" if change["items"] < 0 else "+"
    yield f"{sign}{counted(abs(change['items']), 'item')}, {change['hours']:+.3f} hours"
    if any("leaks" in result[name] for name in ("now", "then")):
        # Clips of dev, test … that share something with train, under both settings.
        names = ("text", "speaker", "recording", "audio")
        leaks = [(when, result[when].get("leaks", {})) for when in ("now", "then")]
        shared = [
            (
                f"{split}, {when}",
                *(_number(name, side[split][name]) if split in side else "-" for name in names),
            )
            for split in sorted({split for _, side in leaks for split in side})
            for when, side in leaks
        ]
        heads = ("", *(f">{name}" for name in names))
        yield table("Clips that share with train", heads, shared)
    if "speakers" in result["then"]:
        before, after = (result[name]["speakers"] for name in ("now", "then"))
        yield f"Speakers: {before:,} now, {after:,} then."
    if again := runs.causes(result["plan"]):
        yield "A run would compute first; for texts that it makes again, this counts today's:"
        for line in again:
            yield f"  {line}"
    elif result["plan"]["changes"] and not change["items"]:
        yield (
            "No clip is gained or lost. The ledger names the first limit that rejects a clip; "
            "others may reject it, too."
        )
    if unknown := result.get("unknown"):
        yield (
            f"Unknown: {counted(unknown, 'recording')} that failed with the last run's filters, "
            "as by a crash; a run would try again what is now in no count."
        )
    if "unjudged" in result["plan"]:
        yield runs.at_most(result["plan"])
    if "refusal" in result["plan"]:
        yield runs.refusal(result["plan"])
    if "unlisted" in result["plan"]:
        yield runs.unlisted(result["plan"])


def compare(result: JsonObject) -> Iterator[Line]:
    old, new = result["versions"]
    yield f"old: {old}"
    yield f"new: {new}"
    yield _pairs("", result["totals"])
    yield ", ".join(f"{count:,} {name}" for name, count in result["clips"].items())
    reasons = [
        (name, *(f"{n:,}" for n in entry["items"]), *map(clock, entry["seconds"]))
        for name, entry in result["reasons"].items()
    ]
    if reasons:
        columns = (">items, old", ">new", ">audio, old", ">new")
        yield table("By reason", ("", *columns), reasons)
    if leaks := result["leaks"]:
        yield _pairs("Clips that share with train", leaks)


def _pairs(title: str, pairs: JsonObject) -> Line:
    rows = (
        (name, *(_number(name, value) for value in (old, new)), _difference(name, old, new))
        for name, (old, new) in pairs.items()
    )
    return table(title, ("", ">old", ">new", ">difference"), rows)


def _number(name: str, value: float | None, sign: str = "") -> str:
    if value is None:
        return "unknown"
    if name in ("WER", "CER"):
        return f"{100 * value:{sign}.2f} {'points' if sign else '%'}"
    return f"{value:{sign}.3f}" if isinstance(value, float) else f"{value:{sign},}"


def _difference(name: str, old: float | None, new: float | None) -> str:
    return "" if old is None or new is None else _number(name, new - old, "+")


def verify(result: JsonObject) -> Iterator[Line]:
    if result["ok"]:
        yield "OK: every file, hash, clip, text and count is as published."
    for name in result.get("side_files", []):
        yield f"A reader's own file, not part of the dataset: {name}"
    if read := result.get("checkpoints"):
        parts, blobs = counted(read["parts"], "checkpoint"), counted(read["blobs"], "blob")
        yield f"Also read: {parts}, {blobs}."
    for fault in result["faults"]:
        yield f"fault: {fault}"
    if "remedy" in result:
        yield f"Remedy: {result['remedy']}."


def prune(result: JsonObject) -> Iterator[Line]:
    counts = ("items", "files", "bytes", "freed")
    rows = ((kind, *(f"{entry[n]:,}" for n in counts)) for kind, entry in result["kinds"].items())
    yield table("", ("", *(f">{n}" for n in counts)), rows)
    for kind in ("versions", "runs"):
        if names := result[kind]:
            yield f"{kind}: {', '.join(names)}"
    if result["uncut"]:
        verb = "is" if result["uncut"] == 1 else "are"
        yield (
            f"{counted(result['uncut'], 'recording')} {verb} not segmented yet: audio and "
            "transcripts of their shards stay until a run has done that."
        )
    freed = f"{counted(result['freed'], 'byte')}"
    if not any(entry["items"] for entry in result["kinds"].values()):
        yield "Nothing to remove."
    elif result["removed"]:
        yield f"Removed; this freed {freed}."
    else:
        yield f"Nothing was removed; --yes removes it and frees {freed}."
    yield f"Kept versions: {', '.join(result['kept']) or 'none yet'}."


def forget(result: JsonObject) -> Iterator[Line]:
    yield (
        f"Removed {counted(result['recordings'], 'recording')} with their copies and channels: "
        f"{counted(result['clips'], 'stored clip')}, {counted(result['texts'], 'stored text')}, "
        f"{counted(result['decisions'], 'decision')} by people, and all reports of runs."
    )
    yield "The next run publishes without them, and no later run takes them again."
    if names := result["versions"]:
        yield (
            f"Published before, and still with them: {', '.join(names)}. After the next run, "
            "`uttermill prune OUT --keep 1 --yes` removes versions before it."
        )


def shelves(result: JsonObject) -> Iterator[Line]:
    for shelf, entries in result.items():
        rows = ((name, e["about"], ", ".join(e["settings"])) for name, e in entries.items())
        yield table(shelf, ("plug-in", "what it does", "settings"), rows)
    yield "Settings of stages: uttermill settings."


def plugins(result: JsonObject) -> Iterator[Line]:
    for shelf, entries in result.items():
        for name, entry in entries.items():
            yield f"{shelf}.{name}: {entry['about']}"
            few = _setting_table("", entry["settings"], ("meaning",))
            yield few if entry["settings"] else "It has no settings."
            if "abilities" in entry:
                able = entry["abilities"]
                longest = f"{able['longest']:g} s" if able["longest"] else "no limit known"
                yield Text(
                    f"languages: {', '.join(able['languages'] or ()) or 'those of its model'}; "
                    f"at once: {longest}; "
                    f"gives {', '.join(able['scores']) or 'no scores known in advance'}; "
                    f"licence of its weights: {able['licence'] or 'not known'}",
                    "dim",
                )
            for column in entry["columns"]:
                unit = "" if column["unit"] == "1" else f" ({column['unit']})"
                yield Text(f"measures {column['column']}{unit}: {column['meaning']}", "dim")
            for entry_of in entry["annotations"]:
                unit = f" ({entry_of['unit']})" if entry_of["unit"] not in ("", "1") else ""
                what = f"{entry_of['kind']} {entry_of['annotation']}{unit}"
                yield Text(f"gives the {what}: {entry_of['meaning']}", "dim")
            yield ""


def settings(result: JsonObject) -> Iterator[Line]:
    for name, entries in result.items():
        yield _setting_table(name, entries, ("meaning", "example"))
        kinds = dict.fromkeys(setting["plugins"] for setting in entries if setting["plugins"])
        for kind in kinds:
            yield Text(f"the settings of each plug-in: uttermill plugins {kind}", "dim")
        yield ""


def _setting_table(title: str, settings: list[JsonObject], further: tuple[str, ...]) -> Line:
    rows = []
    for setting in settings:
        value = setting["default"]
        if setting["required"]:
            value = "required"
        elif value is None or value in ([], {}):
            value = "none"
        elif not isinstance(value, str):
            value = yaml_text.on_one_line(value)
        rows.append((setting["setting"], setting["unit"], value, *(setting[f] for f in further)))
    return table(title, ("setting", "unit", "default", *further), rows)


def columns(result: JsonObject) -> Iterator[Line]:
    for name, entries in result.items():
        heads = ("column", "type", "unit", "meaning")
        yield table(name, heads, ([entry[head] for head in heads] for entry in entries))


def models(result: JsonObject) -> Iterator[Line]:
    for model in result["models"]:
        licence = model["licence"] + ("" if model["commercial"] else " (no commercial use)")
        state = f"{model['state']}, {model['bytes'] / 1e6:.1f} MB, {licence}"
        yield Text(f"{model['name']}  {state}", "bold")
        yield f"  {model['about']}"
        yield f"  from {model['source']}; needed by {', '.join(model['needed_by'])}"
        for text in model.get("texts", []):
            yield f"  {text}"
    if place := result.get("place"):
        yield f"The files are in {place}, with the texts of their licences."
    for model in result["models"]:
        if model["state"] != "ok":
            yield f"{model['name']} is {model['state']}: {model['get']}"


def files(result: JsonObject) -> Iterator[Line]:
    if "text" in result:
        yield from result["text"].splitlines()
        return
    yield from result["files"]
    yield "Print one by its name: `uttermill files dask.yaml > dask.yaml`"


def test_set(result: JsonObject) -> Iterator[Line]:
    yield (
        f"{result['file']}: hashes of {counted(result['texts'], 'text')} and fingerprints of "
        f"{counted(result['sounds'], 'clip')}; package.exclude=[{{kind: hashes, path: "
        f"{result['file']}}}] keeps them out"
    )
