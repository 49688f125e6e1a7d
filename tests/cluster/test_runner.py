"""Death rules of the dispatcher on workers that really die; chains on threads, with Prefect."""

import contextvars
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from tests.helpers import signals
from tests.helpers.on_worker import work_on
from uttermill.flows.cluster import calls
from uttermill.flows.cluster.calls import Dispatcher, Losses, NotBegun
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.cluster.worker_counts import CPU, GPU
from uttermill.flows.run.cluster_executor import map_chains
from uttermill.tasks.base.errors import ItemError, KilledFromOutside, RunError
from uttermill.tasks.stages.isolate import alone_now


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    import dask.config
    import distributed  # noqa: F401 - its defaults first: they would go with what is set

    # Dask ends a nanny for good whose worker is away 15 s after one of its deaths: these tests
    # kill the same worker again and again.
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    scratch = tmp_path_factory.mktemp("scratch")
    # They resample nothing, and one without engines starts with a second of CPU less.
    with patient, Cluster(ClusterSettings(workers=2), scratch, engines={}) as workers:
        yield workers


def within(isolated: bool) -> float:
    """A deadline that no call here misses."""
    return 60.0


def calls_of(marks: Path, shard: str) -> list[str]:
    return (marks / shard).read_text().split()


@pytest.mark.cluster
def test_one_death_is_one_retry(cluster: Cluster, tmp_path: Path) -> None:
    dispatcher = Dispatcher(cluster)
    assert dispatcher.run(work_on, str(tmp_path), "unlucky", within=within) == "unlucky shared"
    assert calls_of(tmp_path, "unlucky") == ["shared", "shared"]
    assert dispatcher.losses == Losses(deaths=1)


@pytest.mark.quick
@pytest.mark.cluster
def test_a_poison_shard_is_isolated_and_innocent_ones_run_once(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dispatcher = Dispatcher(cluster)
    shards = ["poison", *(f"good-{number}" for number in range(12))]
    results = map_chains(
        shards, lambda shard: dispatcher.run(work_on, str(tmp_path), shard, within=within), 6
    )
    assert results == ["poison isolated", *(f"good-{number} shared" for number in range(12))]
    assert calls_of(tmp_path, "poison") == ["shared", "shared", "isolated"]
    assert all(calls_of(tmp_path, shard) == ["shared"] for shard in shards[1:])
    assert dispatcher.losses == Losses(deaths=2, isolated=1)
    warnings = [r.getMessage() for r in caplog.records if r.name == "uttermill"]
    assert len(warnings) == 2
    assert warnings[0] == "poison: its worker died; it runs again"
    assert warnings[1] == "poison: its worker died; its items run one by one now"


@pytest.mark.cluster
@pytest.mark.nightly
def test_what_kills_even_the_isolating_worker_ends_the_run(
    cluster: Cluster, tmp_path: Path
) -> None:
    dispatcher = Dispatcher(cluster)
    with pytest.raises(RunError, match="hopeless ended 6 workers"):
        dispatcher.run(work_on, str(tmp_path), "hopeless", within=within)
    assert calls_of(tmp_path, "hopeless") == ["shared"] * 2 + ["isolated"] * 4


@pytest.mark.quick
@pytest.mark.cluster
def test_errors_of_the_function_come_back_unchanged(cluster: Cluster, tmp_path: Path) -> None:
    dispatcher = Dispatcher(cluster)
    with pytest.raises(ItemError) as item:
        dispatcher.run(work_on, str(tmp_path), "item", within=within)
    assert (item.value.code, item.value.decoded, item.value.rate) == ("decode_error", 5, 16000)
    with pytest.raises(TimeoutError, match="of its own"):
        dispatcher.run(work_on, str(tmp_path), "timeout", within=within)
    assert dispatcher.losses.timeouts == 0


@pytest.mark.cluster
def test_an_interrupt_ends_what_runs(cluster: Cluster, tmp_path: Path) -> None:
    dispatcher = Dispatcher(cluster)
    interrupt = threading.Timer(1.5, signal.raise_signal, [signal.SIGINT])
    began = time.monotonic()
    interrupt.start()
    with signals.interruptible(), pytest.raises(KeyboardInterrupt):
        map_chains(
            ["sleep-1", "sleep-2", "sleep-3"],
            lambda shard: dispatcher.run(work_on, str(tmp_path), shard, within=within),
            3,
            cancel=dispatcher.cancel,
        )
    assert time.monotonic() - began < 50, "before a shard's minute is over"
    assert not (tmp_path / "sleep-3").exists()


class FakeWorkers:
    """Threads that stand for workers, two of each kind unless `there` says otherwise; knows how
    many calls were in flight."""

    def __init__(self, lost: int = 0) -> None:
        self.there: dict[str, int] = {}
        self.most = 0
        self.submitted = 0
        self.renewed = 0
        self.patience = 10**9  # times that it is asked before it gives up
        self._lost = lost  # calls that no worker ever takes
        self._now: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(40)

    def live(self, kind: str) -> int:
        if count := self.there.get(kind, 2):
            return count
        if self.patience == 0:
            raise RunError("no worker is left")
        self.patience -= 1
        return 0

    def submit(self, function: Any, *args: Any, kind: str) -> Future[Any]:
        self.submitted += 1
        if self.submitted <= self._lost:
            return Future()
        with self._lock:
            self._now[kind] += 1
            self.most = max(self.most, self._now[kind])
        return self._pool.submit(self._count_down, kind, function, *args)

    def _count_down(self, kind: str, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        finally:
            with self._lock:
                self._now[kind] -= 1

    def restart_worker_of(self, future: Any) -> bool:
        future.cancel()
        return False

    def left(self, address: str) -> bool:
        return False

    def renew(self) -> None:
        assert not any(self._now.values()), "a call runs"
        self.renewed += 1


def nap(shard: int, isolate: bool = False) -> int:
    time.sleep(0.02)
    return shard


def test_no_more_calls_than_workers_are_in_flight() -> None:
    workers = FakeWorkers()
    dispatcher = Dispatcher(workers)
    numbers = list(range(20))
    assert map_chains(numbers, lambda n: dispatcher.run(nap, n, within=within), 8) == numbers
    assert workers.most == 2


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_calls_follow_the_number_of_workers_up_and_down(kind: str) -> None:
    workers = FakeWorkers()
    workers.there[kind] = 1
    dispatcher = Dispatcher(workers)
    ended: list[int] = []

    def chain(number: int) -> None:
        dispatcher.run(nap, number, within=within, kind=kind)
        ended.append(number)
        if len(ended) == 10:
            assert workers.most == 1
            workers.there[kind] = 32
        if len(ended) == 150:
            assert 16 < workers.most <= 32
            workers.there[kind] = 3
        if len(ended) == 200:  # those that were in flight have ended
            workers.most = 0

    map_chains(list(range(250)), chain, lambda: 2 * workers.there[kind])
    assert sorted(ended) == list(range(250))
    assert 1 <= workers.most <= 3


def test_a_retry_goes_before_calls_that_have_not_been_tried() -> None:
    workers = FakeWorkers()
    workers.there[CPU] = 1
    dispatcher = Dispatcher(workers)
    begun: list[int] = []

    def work(number: int, isolate: bool = False) -> int:
        time.sleep(0.2)
        begun.append(number)
        if begun.count(number) == 1 and number == 0:
            raise MemoryError("once")
        return number

    map_chains([0, 1, 2, 3], lambda n: dispatcher.run(work, n, within=within), 4, dispatcher.cancel)
    assert begun.index(0, 1) <= 2, "at most the call that was being submitted went before it"


def test_later_stages_of_a_shard_go_before_first_stages_of_later_shards() -> None:
    workers = FakeWorkers()
    workers.there[CPU] = 1
    dispatcher = Dispatcher(workers)
    begun: list[tuple[int, str]] = []

    def work(number: int, stage: str, isolate: bool = False) -> None:
        begun.append((number, stage))
        time.sleep(0.05)

    def chain(number: int) -> None:
        for stage in ("filter", "resample", "transcribe"):
            dispatcher.run(work, number, stage, within=within)

    map_chains(list(range(8)), chain, 8)
    assert len(begun) == 24
    assert begun.index((0, "transcribe")) < begun.index((4, "filter"))
    assert begun.index((4, "transcribe")) < begun.index((7, "resample"))


def test_calls_that_wait_for_one_kind_of_workers_hold_up_no_other_kind() -> None:
    dispatcher = Dispatcher(FakeWorkers())
    free = threading.Event()

    def wait() -> bool:
        return free.wait(10)

    def gpu_call() -> object:
        return dispatcher.run(wait, within=within, isolates=False, kind="GPU")

    threads = [threading.Thread(target=gpu_call, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert [dispatcher.run(nap, n, within=within) for n in range(3)] == [0, 1, 2]
    assert all(thread.is_alive() for thread in threads), "control: GPU calls did wait"
    free.set()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_a_call_that_no_worker_took_is_handed_out_again_without_a_charge() -> None:
    workers = FakeWorkers(lost=2)
    dispatcher = Dispatcher(workers)
    assert dispatcher.run(nap, 7, within=lambda isolated: 0.2) == 7
    assert workers.submitted == 3
    assert (dispatcher.losses.deaths, dispatcher.losses.timeouts) == (0, 0)


def test_calls_wait_for_the_first_worker_and_end_together_if_none_comes() -> None:
    workers = FakeWorkers()
    workers.there[CPU] = 0
    dispatcher = Dispatcher(workers)
    threading.Timer(0.3, workers.there.clear).start()
    assert dispatcher.run(nap, 7, within=within) == 7
    workers.there[CPU], workers.patience = 0, 2
    results: list[BaseException | int] = []

    def call(number: int) -> None:
        try:
            results.append(dispatcher.run(nap, number, within=within))
        except RunError as error:
            results.append(error)

    map_chains([0, 1, 2], call, 3)
    assert [str(error) for error in results] == ["no worker is left"] * 3
    assert workers.submitted == 1


def test_a_call_that_was_sent_ends_when_no_worker_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker has died, and Dask's scheduler waits for another one."""
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.05)
    workers = FakeWorkers(lost=1)
    dispatcher = Dispatcher(workers)
    threading.Timer(0.2, lambda: workers.there.update({CPU: 0})).start()
    workers.patience = 3
    with pytest.raises(RunError, match="no worker is left"):
        dispatcher.run(nap, 7, within=within)


def test_a_call_that_is_tried_once_says_why_it_gave_nothing() -> None:
    def broken(number: int) -> float:
        return number / 0

    dispatcher = Dispatcher(FakeWorkers())
    assert dispatcher.once(nap, 7, seconds=9.0) == 7
    with pytest.raises(RunError, match="broken: ZeroDivisionError: division by zero") as told:
        dispatcher.once(broken, 7, seconds=9.0)
    assert isinstance(told.value.__cause__, ZeroDivisionError)


def test_what_is_killed_from_outside_runs_again_with_nothing_beside_it() -> None:
    workers = FakeWorkers()
    workers.there[CPU] = 4
    dispatcher = Dispatcher(workers)
    running, beside, lonely = Counter[str](), list[int](), list[bool]()

    def work(number: int, isolate: bool = False) -> int:
        running["now"] += 1
        try:
            time.sleep(0.02)
            if number % 10 == 0:
                if not isolate:
                    raise MemoryError("so that it is isolated")
                lonely.append(alone_now())
                if not lonely[-1]:
                    raise KilledFromOutside("killed")
                time.sleep(0.1)
                beside.append(running["now"])
            return number
        finally:
            running["now"] -= 1

    numbers = list(range(20))
    call = partial(dispatcher.run, work, within=within)
    assert map_chains(numbers, lambda number: call(number), 8, dispatcher.cancel) == numbers
    assert sorted(lonely) == [False, False, True, True]
    assert beside == [1, 1]
    assert workers.renewed == 2
    assert workers.most > 1, "control: others did run beside each other"


def test_calls_that_are_killed_even_alone_end_the_run() -> None:
    """One may be too large for the machine; three tell that the machine is too small."""
    dispatcher = Dispatcher(FakeWorkers())
    tried: list[tuple[int, bool]] = []

    def work(number: int, isolate: bool = False) -> int:
        if not isolate:
            raise MemoryError("so that it is isolated")
        tried.append((number, alone_now()))
        if (number, True) in tried[:-1]:
            return number  # resigned
        raise KilledFromOutside("the limit is 0.65 GB")

    assert [dispatcher.run(work, number, within=within) for number in (1, 2)] == [1, 2]
    assert tried == [(n, alone) for n in (1, 2) for alone in (False, True, True)]
    with pytest.raises(RunError, match=r"the limit is 0\.65 GB"):
        dispatcher.run(work, 3, within=within)


def test_chains_begin_in_order_and_results_keep_it() -> None:
    begun: list[int] = []

    def chain(number: int) -> int:
        begun.append(number)
        time.sleep(0.01 * (5 - number))
        return number * 10

    assert map_chains([3, 1, 2, 0], chain, 1) == [30, 10, 20, 0]
    assert begun == [3, 1, 2, 0]
    assert map_chains([3, 1, 2, 0], chain, 4) == [30, 10, 20, 0]
    assert map_chains([], chain, 4) == []


def test_after_an_error_running_chains_finish_and_no_more_begin() -> None:
    finished: list[int] = []

    def chain(number: int) -> None:
        if number == 1:
            raise RunError("the second shard")
        time.sleep(0.3)
        finished.append(number)

    with pytest.raises(RunError, match="the second shard"):
        map_chains(list(range(50)), chain, 2)
    assert finished == [0]


def test_an_error_is_raised_before_what_it_kept_from_beginning() -> None:
    failed = threading.Event()

    def chain(number: int) -> None:
        if number:
            failed.set()
            raise NotBegun("the second shard")
        failed.wait(10)
        time.sleep(0.1)
        raise RunError("the first shard")

    with pytest.raises(RunError, match="the first shard"):
        map_chains([0, 1], chain, 2)


def test_each_chain_has_its_own_copy_of_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("caller")

    def chain(number: int) -> str:
        seen = variable.get()
        variable.set(f"chain {number}")
        return seen

    assert map_chains([1, 2, 3, 4], chain, 2) == ["caller"] * 4
    assert variable.get() == "caller"


@task(cache_policy=NO_CACHE, persist_result=False)
def stage(number: int) -> Any:
    time.sleep(0.005)
    return Completed(name="Reused", data=number) if number % 2 else number
