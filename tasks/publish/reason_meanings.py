"""The meaning of each reason in a version: of rules, the limits that give it, with their values and
what they measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..accounting.reasons import MEANINGS
from ..base import schema
from ..corpus.limits import text_rules
from ..plugins.rules import Allowed, Rule
from ..settings.job import Job
from ..shard_store import enhanced
from ..shard_store.chosen_rules import filter_rules
from ..shard_store.text_values import text_columns


def meanings(job: Job, names: Iterable[str]) -> dict[str, str]:
    """By `<stage>.<reason>`, in words; a reason of a user's own plug-in is spelled out."""
    measures = units(job)
    by_rule: dict[str, dict[str, None]] = {}
    for stage, rules in (
        ("filter", filter_rules(job.filter.all_filters)),
        ("enhance", enhanced.rules(job)),
        ("transcribe", text_rules(job)),
    ):
        for rule in rules:
            for reason, limit in _limits(rule):
                words = f"{rule.column} {limit}{_doc(measures, rule.column)}"
                by_rule.setdefault(f"{stage}.{reason}", {})[words] = None
    meanings = dict[str, str]()
    for name in names:
        code = name.partition(".")[2]
        spelled = MEANINGS.get(code, code.replace("_", " "))
        meanings[name] = " or ".join(by_rule.get(name, ())) or spelled
    return meanings


def units(job: Job) -> dict[str, tuple[str, str]]:
    """(unit, meaning) of every measure."""
    about = {field.name: schema.about(field) for field in schema.TRANSCRIPTS}
    about["text_chars"] = ("characters", "length of the text")
    about["wer"] = ("", "word errors / words of the reference")
    about["cer"] = ("", "character errors / characters of the reference")
    about["seconds"] = ("s", "length of the utterance")
    return {**about, **enhanced.measures(job), **text_columns(job.transcribe.verdicts)}


def _limits(rule: Rule) -> Iterator[tuple[str, str]]:
    """(reason, the limit in words) of each way in which a rule rejects."""
    if isinstance(rule, Allowed):
        yield rule.reason, f"is not one of {', '.join(rule.values)}"
        return
    for limit, word, reason in ((rule.min, "below", rule.low), (rule.max, "above", rule.high)):
        if limit is not None and reason:
            yield reason, f"{word} {limit:g}"


def _doc(measures: Mapping[str, tuple[str, str]], name: str) -> str:
    unit, meaning = measures.get(name, ("", ""))
    unit = "" if unit in ("", "1") else f"{unit}, "
    return f" ({unit}{meaning})" if meaning else ""
