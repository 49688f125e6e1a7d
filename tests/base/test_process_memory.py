"""What saves memory and time of a process keeps nothing that a later run leaves behind."""

from __future__ import annotations

import gc

from uttermill.tasks.base.process_memory import importing


def test_a_block_that_imports_nothing_hides_no_garbage() -> None:
    before = gc.get_freeze_count()
    for _ in range(3):
        with importing():
            cycle: list[object] = []
            cycle.append(cycle)
    assert gc.get_freeze_count() == before
    assert gc.isenabled()
