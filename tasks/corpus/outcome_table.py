"""The table of outcomes: every utterance of the last run, with the values that rules compare.

    OUT/manifests/package/decisions.parquet/    one row an utterance, whatever its outcome, in parts
    OUT/manifests/package/decisions.json        names of the parts and the state they are valid for;
                                                written last

`package` writes it, so that `what-if` and the report read the columns of a million utterances in
seconds instead of opening thousands of manifests. It is not a checkpoint: no version is computed
from it, and it is ignored once the manifests have changed.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .. import plugins, storage
from ..base.errors import CorruptManifest
from ..settings import Plugin, role
from ..settings.job import Job
from ..shard_store import decisions, enhanced, whole_job
from ..shard_store.index import Index
from ..storage import queries, tables
from ..storage.queries import literal
from . import limits

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Limits of the filter stage on whole recordings; other ones give other utterances.
STAGE_LIMITS = ("max_hours", "max_expansion", "duplicate_files")
NOT_IN_AUDIO = "not_in_audio"  # reason of a clip whose text is not in its audio
FIXED = pa.schema(
    [*limits.FIXED, *(pa.field(name, pa.string()) for name in ("outcome", "stage", "reason"))]
)


def schema_of(job: Job) -> pa.Schema:
    """The facts that limits may ask, without KNOWN, and the outcomes."""
    return pa.schema([*limits.values_schema(job), *list(FIXED)[len(limits.FIXED) :]])


def _state(job: Job, manifests: str | None = None) -> dict[str, str]:
    """The state for which the table is valid: the manifests, and all settings but limits.
    `manifests`: the hash of their names; None: list them."""
    return {
        "manifests": manifests or Index(job.out).names_hash(),
        "settings": json.dumps(_measuring(job), sort_keys=True),
    }


def fact_settings(job: Job) -> dict[str, object]:
    """Settings that change the facts of utterances (`limits.facts_of`) and their published rows."""
    settings = whole_job.settings_of(job)
    hiding = {p.use for p in job.transcribe.verdicts if plugins.TEXT.load(p.use).hide}
    return {
        **_measuring(job),
        "limits of stages": [getattr(job.filter, name) for name in STAGE_LIMITS],
        "enhance": settings.get("enhance"),
        "llm_text": settings["transcribe"].get("llm_text"),
        "hidden": [p for p in settings["transcribe"]["verdicts"] if p["use"] in hiding],
        "columns": limits.schema_of(job).names,
    }


def _measuring(job: Job) -> dict[str, object]:
    """Settings that change stored values; limits do not."""
    measuring: dict[str, object] = {**whole_job.recipes_of(job)}
    for stage in ("filter", "resample", "transcribe"):
        model = getattr(job, stage)
        for name in type(model).model_fields:
            value = getattr(model, name)
            if name == "llm_text":  # runs after all rules, on texts that passed them
                continue
            if role(type(model), name) is None and not isinstance(value, Plugin | tuple):
                measuring[f"{stage}.{name}"] = value
    # Settings that choose which text the rules measure.
    transcribe = job.transcribe
    text: list[object] = [
        *(transcribe.text, transcribe.close_wer, transcribe.language_by, transcribe.turns_by)
    ]
    if enhanced.heard(job):
        text += [transcribe.hear, whole_job.settings_of_plugin("enhance", job.enhance)]
    if transcribe.backends:
        given = transcribe.model_dump(mode="json")
        text += [transcribe.asr, given["when"]]
        text += [given["also_when"]] if transcribe.also_when else []
    measuring["text"] = text
    # Recipes of the text plug-ins.
    texts = {p.use: plugins.TEXT.resolve(p)[1].recipe() for p in job.transcribe.verdicts}
    measuring["texts"] = {use: recipe for use, recipe in texts.items() if recipe}
    measuring["reviews"] = decisions.identity(job)
    return measuring


def place(out: Path) -> Path:
    """The folder of the table's parts."""
    return out / "manifests" / "package" / "decisions.parquet"


def _seal(out: Path) -> Path:
    return out / "manifests" / "package" / "decisions.json"


def unseal(out: Path) -> None:
    """Invalidate the table before its parts change; only while holding OUT's lock."""
    storage.remove(_seal(out))


def seal(job: Job, names: Iterable[str], manifests: str | None = None) -> None:
    """Declare the named parts valid for the current manifests; the caller holds OUT's lock.
    `manifests`: the hash of the manifests' names; None: list them."""
    sealed = {**_state(job, manifests), "parts": sorted(names)}
    storage.write_atomic(_seal(job.out), json.dumps(sealed).encode())


def where(job: Job) -> Path | None:
    """The folder of the table if it is valid for these settings, whatever their limits; else
    None."""
    home = place(job.out)
    try:
        sealed = storage.read_json(_seal(job.out))
        schema = tables.schema(home)
    except (OSError, ValueError, pa.ArrowException):
        return None
    # Columns of rules that are no longer used do no harm.
    whole = {*schema_of(job).names} <= set(schema.names)
    parts = [path.name for path in storage.names(home, ".parquet")]
    state = {**_state(job), "parts": parts}
    return home if whole and sealed == state else None


@contextmanager
def database(path: Path, memory: str = queries.MEMORY) -> Iterator[DuckDBPyConnection]:
    """A DuckDB connection with the view `outcomes` over the table of outcomes at `path`. Queries
    without ORDER BY return the rows in the table's order (one thread).

    Raises CorruptManifest if a part is damaged.
    """
    parts = tables.parts(path)
    home, names = parts[0].parent, [part.name for part in parts]
    storage.refuse_links(home)  # DuckDB would follow links
    with tempfile.TemporaryDirectory() as scratch:
        copies = Path(scratch) / "parts"
        with storage.of(home).reading(home, names, copies) as folder:
            if queries.is_pattern(folder):
                folder = shutil.copytree(folder, copies)
            connection = queries.connect(Path(scratch), [folder], memory, threads=1)
            files = ", ".join(literal(str(folder / name)) for name in names)
            try:
                with reading(path):
                    view = f"CREATE VIEW outcomes AS SELECT * FROM read_parquet([{files}])"
                    connection.execute(view)
                    yield connection
            finally:
                connection.close()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises CorruptManifest if DuckDB finds a part of the table damaged in the body of `with`."""
    import duckdb

    try:
        yield
    # DuckDB raises RuntimeError where its message is not UTF-8, as a damaged name may make it.
    except (duckdb.Error, RuntimeError) as error:
        damage = duckdb.InvalidInputException
        if isinstance(error, duckdb.ProgrammingError) and not isinstance(error, damage):
            raise
        why = str(error).partition("\n")[0]
        raise CorruptManifest(f"{path} cannot be read: {why}", str(path)) from None


#: SQL predicate on outcome, stage and reason: rows whose outcome no limit can change, because they
#: failed, their text is not in their audio, or a corpus-wide rule rejects them (copies, outliers,
#: splits).
BEYOND_LIMITS = (
    "(outcome = 'failed' OR (outcome = 'dropped' AND stage = 'package' AND reason <> 'weight') "
    f"OR coalesce(reason = '{NOT_IN_AUDIO}', false))"
)


def left_out_by_weight(job: Job) -> str:
    """SQL predicate on dataset and id: rows that `package.weights` drops, by the same draw as
    `choosing.weights` makes: the first 64 bits of a seeded SHA-256, as a fraction of 2**64."""
    draw = f"('0x' || left(sha256('{job.package.seed}:weight:' || id), 16))::UBIGINT::DOUBLE"
    shares = (
        f"(dataset = {literal(name)} AND {draw} / {float(2**64)!r} >= '{weight!r}'::DOUBLE)"
        for name, weight in job.package.weights.items()
        if weight < 1
    )
    return f"coalesce({' OR '.join(['false', *shares])}, false)"
