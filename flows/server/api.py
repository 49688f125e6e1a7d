"""The Prefect API that is configured: whether it answers, and whether it takes us."""

from __future__ import annotations

import httpx
from prefect.client.orchestration import get_client

from tasks.errors import RunError

REFUSALS = (401, 403)


def check(url: str) -> None:
    """RunError with the remedy when the API at `url` cannot be reached or refuses this client.

    Prefect would say it in a traceback, in the middle of the run.
    """
    try:
        with get_client(sync_client=True) as client:
            client.request("GET", "/admin/version").raise_for_status()
    except httpx.HTTPStatusError as error:
        raise RunError(_refused(url, error.response.status_code)) from None
    except (httpx.HTTPError, RuntimeError) as error:
        raise RunError(
            f"the Prefect API at {url} cannot be reached ({error}); start it, or unset "
            "PREFECT_API_URL for a server of the run's own"
        ) from None


def _refused(url: str, status: int) -> str:
    if status not in REFUSALS:
        return f"the Prefect API at {url} answers with status {status}; is it a Prefect server?"
    return (
        f"the Prefect API at {url} refuses this client (status {status}); set "
        "PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) to what the server asks for"
    )
