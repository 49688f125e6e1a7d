"""The main module of Dask's spawned workers, and Dask's scheduler and worker without their HTTP
servers, which would show logs and call stacks to all users of this machine, without a certificate.
"""

from __future__ import annotations

from ...tasks.base.process_memory import importing

with importing():
    import distributed


class Scheduler(distributed.Scheduler):
    def start_http_server(self, *_: object, **__: object) -> None:
        """Nothing listens."""


class Worker(distributed.Worker):
    def start_http_server(self, *_: object, **__: object) -> None:
        """Nothing listens."""
