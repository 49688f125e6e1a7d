"""`python -m tests.trace`: what it counts as a call, and that it sees a whole run."""

import threading

import pytest

from tests import trace
from uttermill.flows import formatting
from uttermill.tasks.base import environment


def test_calls_of_the_product_are_counted_in_all_threads() -> None:
    with trace.entered() as calls:
        formatting.clock(61.0)
        worker = threading.Thread(target=formatting.clock, args=(61.0,))
        worker.start()
        worker.join()
    assert calls[formatting.clock.__code__] == 2
    assert {code.co_filename for code in calls} == {formatting.__file__}, "not those of threading"


def test_a_generator_is_one_call() -> None:
    with trace.entered() as calls, environment.setting({"UTTERMILL_TRACED": "1"}):
        pass
    assert calls[environment.setting.__wrapped__.__code__] == 1  # type: ignore[attr-defined]


@pytest.mark.full
def test_one_recording_passes_all_five_stages() -> None:
    counted = trace.passed()
    assert 50 < counted["modules"] <= counted["functions"] <= counted["calls"]
