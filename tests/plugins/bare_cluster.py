"""A cluster class whose workers start without the preload, as a site's own may."""

from typing import Any

import dask.config
import distributed

made: Any = distributed  # untyped


class BareCluster(made.SpecCluster):  # type: ignore[misc]
    def __init__(self, directory: str) -> None:
        place: dict[str, Any] = {"host": "127.0.0.1", "local_directory": directory}
        pages = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
        config = dask.config.merge(dask.config.config, {"distributed": {"worker": {"preload": []}}})
        scheduler = {"cls": made.Scheduler, "options": {**place, **pages}}
        worker = {"cls": made.Nanny, "options": {**place, "preload": [], "config": config}}
        super().__init__({"bare": worker}, scheduler, worker=worker)
