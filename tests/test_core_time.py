"""A busy machine is no fault of what runs on it."""

import subprocess
import sys
import threading
import time

import pytest

from rlclinic import core_time
from rlclinic.ops.diagnose import examine_env


def test_waiting_for_a_core_is_left_out_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([0.0, 5.0, 90.0])
    monkeypatch.setattr(core_time, "waited", lambda task=None: next(told))
    monkeypatch.setattr(core_time, "READ_EVERY", 0.0)
    clock = iter([100.0, 106.0, 200.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    watch = core_time.Stopwatch(most=20.0)
    assert watch.seconds == 1.0
    assert watch.seconds == 80.0, "20 of the 90 seconds at most"


def test_a_process_and_a_thread_of_nobody_waited_for_nothing() -> None:
    assert core_time.waited(2**31 - 1) == 0.0
    assert core_time.waited() >= 0.0


def start(text: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_simulator_that_outlives_its_environment_is_not_waited_for(hangs: bool) -> None:
    simulator = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)']); "
    with start(simulator + "sys.stdout.buffer.write(b'{}\\xff'); sys.stdout.flush(); " + "time.sleep(60)" * hangs) as child:
        began = time.monotonic()
        out, _, late = examine_env._wait_for(child, 0.6 if hangs else 30.0)
    # What is no text does no harm either.
    assert (out, late) == ("{}\ufffd", hangs)
    assert time.monotonic() - began < 25.0


@pytest.mark.parametrize("waited", [0.0, 30.0])
def test_an_environment_blocks_only_if_it_had_a_core_all_the_time(waited: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_time, "waited", lambda task=None: waited)
    monkeypatch.setattr(examine_env, "MOST_WAITED", 100.0)
    with start("import time; time.sleep(1.0); print('{}')") as child:
        out, _, late = examine_env._wait_for(child, 0.3)
    assert (out.strip(), late) == (("{}", False) if waited else ("", True))


@pytest.mark.parametrize("waited", [0.0, 30.0])
def test_the_same_holds_for_an_object_of_this_program(waited: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_time, "waited", lambda task=None: waited)
    monkeypatch.setattr(examine_env, "MOST_WAITED", 100.0)
    started = threading.Event()

    def examine(make: object, name: str, seconds: float, report: object, *, searches: bool) -> None:
        started.set()
        time.sleep(0.6)

    monkeypatch.setattr("rlclinic.training.envs.examine.environment.examine", examine)
    facts = examine_env.facts_in_process(lambda: None, "mine", 0.2)
    assert started.is_set()
    assert ("blocked_in" in facts) is (waited == 0.0)
