"""Whether a person has paused a deployment or its schedule in Prefect's UI: that stays so when
`uttermill serve` starts again.

Prefect's runner would pause each deployment as it ends, and a start would end every pause. So
`serve` pauses the deployment itself and distinguishes both by a tag, which is on the deployment
while it is served, and stays if a person has paused it.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.exceptions import ObjectNotFound

TAG = "uttermill"
SERVED = "served"


class Pauses(NamedTuple):
    """What a person has paused."""

    deployment: bool = False
    schedule: bool = False


async def of(deployment: str) -> Pauses:
    """The pauses of the deployment `prepare/NAME` as it was left; none if there is no such
    deployment."""
    async with get_client() as client:
        try:
            stored = await client.read_deployment_by_name(deployment)
        except ObjectNotFound:
            return Pauses()
    inactive = [not schedule.active for schedule in stored.schedules]
    by_person = stored.paused and SERVED in stored.tags
    return Pauses(by_person, bool(inactive) and all(inactive))


async def pause_unserved(deployment: UUID) -> None:
    """Pause a deployment that is not served, so that no run becomes due."""
    async with get_client() as client:
        stored = await client.read_deployment(deployment)
        if not stored.paused:
            await client.update_deployment(deployment, DeploymentUpdate(paused=True, tags=[TAG]))
