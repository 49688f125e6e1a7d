"""What Kubernetes says of a cluster's pods that do not start: no node has room, a quota is used up,
an image is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tasks.base.errors import shortened

LABEL = "dask.org/cluster-name"  # of the pods and worker groups of `dask_kubernetes`


def word(cluster: Any) -> str:
    """The warnings of Kubernetes about a cluster of `dask_kubernetes`, each reason once; "" if
    there is none, for another class, and where the API does not answer."""
    if type(cluster).__module__.partition(".")[0] != "dask_kubernetes":
        return ""
    import httpx
    import kr8s
    from kr8s.objects import Event

    try:
        warnings: Iterable[Any] = Event.list(
            namespace=cluster.namespace, field_selector={"type": "Warning"}
        )
        return warned([event.raw for event in warnings], cluster.name)
    except (OSError, RuntimeError, httpx.HTTPError, kr8s.ServerError, kr8s.APITimeoutError):
        return ""


def warned(events: Iterable[Mapping[str, Any]], name: str) -> str:
    """The last message of each reason about objects of the cluster `name`, oldest first."""
    last: dict[str, str] = {}
    for event in sorted(events, key=_when):
        if event["involvedObject"].get("name", "").startswith(name):
            last.pop(event["reason"], None)
            last[event["reason"]] = " ".join(event.get("message", "").split())
    reasons = [f"{reason}: {message}" for reason, message in last.items()]
    return f"Kubernetes: {shortened('; '.join(reasons))}" if reasons else ""


def _when(event: Mapping[str, Any]) -> str:
    """ISO 8601 in UTC, so that texts sort as times; "" if unknown."""
    return event.get("lastTimestamp") or event.get("eventTime") or ""
