"""The main module of Dask's spawned workers, and Dask's scheduler and worker without their HTTP
servers, which would show logs and call stacks to all users of this machine, without a certificate.

A worker imports this before its preload, which is when it learns what its run needs: what every run
does is imported here, and a library that cannot be is reported there.
"""

from __future__ import annotations

from contextlib import suppress

from ...tasks.base.process_memory import importing, without_pandas

IS_WORKER = __name__ == "__mp_main__"
with importing():
    import distributed

    if IS_WORKER:
        from ...tasks.runs import libraries

        with suppress(Exception):
            without_pandas()
            libraries.load(libraries.ALWAYS)


class Scheduler(distributed.Scheduler):
    def start_http_server(self, *_: object, **__: object) -> None:
        """Nothing listens."""


class Worker(distributed.Worker):
    def start_http_server(self, *_: object, **__: object) -> None:
        """Nothing listens."""
