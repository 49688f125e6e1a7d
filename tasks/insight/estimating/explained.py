"""The query that decides what is packaged, and what follows it, for `--explain`."""

from __future__ import annotations

from collections.abc import Iterator

from ... import corpus
from ...corpus import limits
from ...publish.choosing import clip_choice
from ...settings.job import Job


def lines(job: Job) -> list[str]:
    """SQL over the facts of all utterances; as comments, what drops others of its packaged ones."""
    printed = ["-- The outcome of each utterance, by the facts that its shard stored (facts):"]
    printed += limits.query(job).splitlines()
    if later := [*_later(job)]:
        printed += ["-- Of what it packages, these drop more, in this order:"]
        printed += [f"--   {line}" for line in later]
    return printed


def _later(job: Job) -> Iterator[str]:
    for shelf, plugin in corpus.chosen(job):
        yield f"{shelf}.{plugin.use}, which compares all clips"
    package = job.package
    if clip_choice.restricts(package):
        yield "package.only and package.without"
    for name in ("weights", "max_hours_per_speaker", "splits"):
        if getattr(package, name):
            yield f"package.{name}"
