"""PostgreSQL as Prefect's database: what the README says, with a real server of it.

Needs its binaries on the PATH.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.command import Site
from tests.helpers import corpus, postgres

pytestmark = [
    pytest.mark.server,
    pytest.mark.cluster,
    pytest.mark.skipif(
        bool(postgres.MISSING), reason=f"not on the PATH: {', '.join(postgres.MISSING)}"
    ),
]


@pytest.fixture
def database() -> Iterator[str]:
    """URL of a new, empty database on the loopback."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(postgres.serving()).url
        except postgres.NoUser as why:
            pytest.skip(str(why))
        yield url


def rows(url: str, query: str) -> list[tuple[str, ...]]:
    import asyncpg  # type: ignore[import-untyped]  # Prefect's

    async def ask() -> list[tuple[str, ...]]:
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(ask())


@pytest.mark.nightly
def test_a_run_leaves_its_history_there(database: str, tmp_path: Path) -> None:
    """As the README says it: one variable. The second run has one recording more."""
    environment = {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database, "PREFECT_HOME": str(tmp_path / "home")
    }  # fmt: skip
    site = Site(tmp_path, "", environment)
    corpus.make(site.source, 3)
    chosen = site.settings("out", cluster={"workers": 1})
    old = int(site.done(chosen).result["stages"]["filter"]["shards_run"])
    assert not (tmp_path / "home" / "prefect.db").exists()
    flow_runs = "select state_name from flow_run"
    assert Counter(rows(database, flow_runs)) == {("Completed",): 1}
    task_runs = "select state_name from task_run"
    assert Counter(rows(database, task_runs)) == {("Completed",): 2 + 3 * old}
    corpus.add(site.source, 3)
    new = int(site.done(chosen).result["stages"]["filter"]["shards_run"])
    assert Counter(rows(database, flow_runs)) == {("Completed",): 2}
    states = Counter(rows(database, task_runs))
    assert states == {("Completed",): 4 + 3 * (old + new)}
    ((text,),) = rows(
        database,
        "select data #>> '{}' from artifact where key is not null order by created limit 1",
    )
    assert "Done: published v0001" in text
