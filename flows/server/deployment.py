"""The deployment of `uttermill serve` in Prefect: its alert, and what a person has paused.

`--alert URL` makes an automation that posts to an address when a run ends Failed (also one that
refuses to publish), Crashed or TimedOut, or is Late. The automation and its webhook have names of
their own, so that a later start replaces them and one without `--alert` removes them; both are
shown in Prefect's UI, where they can be changed for the time that `serve` runs. The address, which
may hold a token, is kept as a secret of Prefect.

Prefect's runner would pause each deployment as it ends, and a start would end every pause. So
`serve` pauses the deployment itself and distinguishes both by a tag, which is on the deployment
while it is served, and stays if a person has paused it.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.events.actions import CallWebhook
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from ...tasks.base.errors import ConfigError

STATES = ("Failed", "Crashed", "TimedOut", "Late")
#: JSON that Slack, Mattermost, Teams and their like show as a message, and that programs can read.
PAYLOAD = (
    '{"text": {{ ("uttermill: " ~ deployment.name ~ ", run " ~ flow_run.name ~ ": " ~ '
    'flow_run.state.name ~ ". " ~ (flow_run.state.message or "")) | tojson }}, '
    '"deployment": {{ deployment.name | tojson }}, "flow_run": {{ flow_run.id | string | tojson }},'
    ' "run": {{ flow_run.name | tojson }}, "state": {{ flow_run.state.name | tojson }}, '
    '"message": {{ (flow_run.state.message or "") | tojson }}}'
)


def check_alert(url: str | None) -> None:
    """Raises ConfigError for an address that cannot be posted to."""
    parts = urlsplit(url or "http://none")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            "--alert takes an address such as https://hooks.example.com/T0/B0; for e-mail, give "
            "that of a service that sends what is posted to it"
        )


async def set_alert(deployment: UUID, name: str, url: str | None) -> None:
    """Make the automation of the deployment `name`, or remove it without an address."""
    called = f"uttermill alert {name}"
    block = f"uttermill-alert-{deployment}"
    async with get_client() as client:
        for automation in await client.read_automations_by_name(called):
            await client.delete_automation(automation.id)
        if url is None:
            try:
                webhook = await client.read_block_document_by_name(block, "webhook")
                await client.delete_block_document(webhook.id)
            except ObjectNotFound:
                pass
            return
        # A new server may not have the webhook's type yet.
        await Webhook.aregister_type_and_schema(client=client)
        posting = Webhook(url=url, headers={"Content-Type": "application/json"})
        document = await posting.save(block, overwrite=True, client=client)
        await client.create_automation(
            AutomationCore(
                name=called,
                description="Made by `uttermill serve --alert`, anew at each start.",
                trigger=EventTrigger(
                    expect={f"prefect.flow-run.{state}" for state in STATES},
                    match_related={
                        "prefect.resource.id": f"prefect.deployment.{deployment}",
                        "prefect.resource.role": "deployment",
                    },
                    for_each={"prefect.resource.id"},
                    posture=Posture.Reactive,
                    threshold=1,
                ),
                actions=[CallWebhook(block_document_id=document, payload=PAYLOAD)],
            )
        )


TAG = "uttermill"
SERVED = "served"


class Pauses(NamedTuple):
    """What a person has paused."""

    deployment: bool = False
    schedule: bool = False


async def pauses_of(deployment: str) -> Pauses:
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
