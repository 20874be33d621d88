"""Cohorts on Ray: what is ours is tested against a stand-in that can be cut off, and the whole once on a real cluster."""

import gc
import importlib.util
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlclinic import ray_cluster
from rlclinic.config import Config
from rlclinic.errors import ConfigError, RunError, UsageError
from rlclinic.launch import batch, local, places, ray
from rlclinic.launch.places import RayPlace
from rlclinic.runs import lease, lock
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

ROOT = Path(__file__).resolve().parents[2]
MODULE = "tests.launch.pretended"
PATIENCE = 60.0


class Cluster:
    """Ray as far as we use it: actors are objects of this process, whose answers may stay away, and which may be killed."""

    def __init__(self) -> None:
        self.exceptions = SimpleNamespace(RayError=RuntimeError)
        self.cut = threading.Event()
        self.keepers: list[ray.Keeper] = []
        self.killed: list[ray.Keeper] = []
        self.pool = ThreadPoolExecutor(16)
        self.machines = [{"Alive": True, "Resources": {"CPU": 2.0}}]

    def remote(self, **options: Any) -> Any:
        def make(kind: type[ray.Keeper]) -> Any:
            return SimpleNamespace(remote=lambda: self.make(kind()))

        return make

    def make(self, keeper: ray.Keeper) -> Any:
        self.keepers.append(keeper)

        def call(method: Callable[..., Any]) -> Any:
            def ask(*arguments: Any) -> Future[Any]:
                return Future() if self.cut.is_set() else self.pool.submit(method, *arguments)

            return SimpleNamespace(remote=ask)

        return SimpleNamespace(greet=call(keeper.greet), beat=call(keeper.beat), wait=call(keeper.wait), keeper=keeper)

    def wait(self, futures: list[Future[Any]], timeout: float) -> tuple[list[Future[Any]], list[Future[Any]]]:
        done = [future for future in futures if future.done() and not self.cut.is_set()]
        return done, [future for future in futures if future not in done]

    def get(self, future: Future[Any]) -> Any:
        return future.result(PATIENCE)

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.keeper)

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return self.machines

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": sum(node["Resources"].get("CPU", 0) for node in self.machines)}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster()
    monkeypatch.setattr(ray, "connect", lambda place=None: made)
    monkeypatch.setattr(lease, "SECONDS", 1.5)
    monkeypatch.setattr(ray, "_PASSED_ON", (*ray._PASSED_ON, "PRETEND"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ray.forget_idle()
    yield made
    ray.forget_idle()
    made.pool.shutdown(wait=False)


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    base = Config.model_validate({"env": {"id": "CartPole-v1"}})
    return Store(tmp_path / "runs").create_group([base.model_copy(update={"seed": seed}) for seed in range(2)]).runs


def begin(pretend: str, runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> ray.RayLaunch:
    monkeypatch.setenv("PRETEND", pretend)
    return ray.start(RayPlace(), [[run.path for run in runs]], module=MODULE)


def until(condition: Callable[[], object], launch: local.Launch | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        if launch is not None:
            launch.poll()
        time.sleep(0.02)


def trains(run: Run) -> bool:
    facts = run.path / "facts"
    return run.status.state == "running" and facts.exists() and len(facts.read_text().split("\n")) == 6


def pid_of(run: Run) -> int:
    return int((run.path / "facts").read_text().split("\n")[0])


def test_a_cohort_trains_to_its_end_and_its_place_serves_the_next_or_is_freed(
    cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "IDLE_SECONDS", 0.5)
    for run in runs:
        launch = begin("finish", [run], monkeypatch)
        assert launch.wait(PATIENCE)
        assert (run.status.state, launch.failed) == ("finished", [])
    assert len(cluster.keepers) == 1
    assert runs[0].status.host == lock.HOST  # of the same machine: processes are looked up by their numbers
    until(lambda: cluster.killed == cluster.keepers)


def test_a_stop_is_passed_on_and_a_crash_is_explained(cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("wait", runs, monkeypatch)
    until(lambda: trains(runs[1]), launch)
    launch.stop()
    assert launch.wait(PATIENCE)
    assert [run.status.state for run in runs] == ["stopped", "stopped"]
    launch = begin("raise", runs, monkeypatch)
    assert launch.wait(PATIENCE)
    assert runs[0].status.state == "failed"
    assert "no such thing" in str(runs[0].status.reason)


def test_an_abort_kills_at_once(cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("deaf", runs, monkeypatch)
    until(lambda: trains(runs[1]), launch)
    pid = pid_of(runs[0])
    launch.abort()
    assert lock.started(pid) is None
    assert not launch.poll()
    assert str(runs[0].status.reason).startswith("aborted")


def test_runs_that_are_cut_off_stop_with_a_checkpoint_and_are_given_up_only_after_that(
    cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = begin("wait", runs, monkeypatch)
    until(lambda: trains(runs[1]), launch)
    pid = pid_of(runs[0])
    cluster.cut.set()
    while launch.poll():
        # Never given up while its trainer may still write.
        assert launch.running
        time.sleep(0.02)
    assert lock.started(pid) is None
    assert [run.status.state for run in runs] == ["stopped", "stopped"]  # by themselves, before their time was over
    assert all(batch.is_open(run) for run in runs)


def test_a_trainer_that_does_not_listen_is_killed_at_its_deadline(
    cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = begin("deaf", runs, monkeypatch)
    until(lambda: trains(runs[1]), launch)
    pid = pid_of(runs[0])
    cluster.cut.set()
    until(lambda: lock.started(pid) is None)
    assert launch.wait(PATIENCE)
    assert [run.status.state for run in runs] == ["failed", "failed"]
    assert "killed by a cut" in str(runs[0].status.reason)
    assert batch.is_open(runs[0])  # it says nothing about the config: it is taken up again


def test_a_message_that_comes_late_gives_no_time(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRETEND", "deaf")
    environment = {"PRETEND": "deaf", "PYTHONPATH": str(ROOT)}
    paths = [str(run.path) for run in runs]
    keeper = ray.Keeper()
    clock = keeper.greet(ray.Order(MODULE, paths, False, 1, environment, str(ROOT), ray._version(), ray._machine(), "here", 30.0)).clock
    keeper.beat(clock, 30.0, ())
    until(lambda: trains(runs[1]))
    # Sent when it had last been heard of a minute ago, and held up on the way: the launcher has long given it up.
    keeper.beat(clock - 60.0, 30.0, ())
    assert keeper.wait().returncode == -signal.SIGKILL


def test_a_job_gives_no_more_time_than_it_has(cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "own"
    lease.write_deadline(own, lease.now() + 3600)
    monkeypatch.setattr(lease, "SECONDS", 30.0)
    monkeypatch.setattr(ray, "BEAT_SECONDS", 0.1)
    launch = begin("deaf", runs, monkeypatch)
    process = launch.running[0].process
    assert isinstance(process, ray.RemoteProcess)
    until(lambda: trains(runs[1]), launch)
    monkeypatch.setenv(lease.VARIABLE, str(own))
    lease.write_deadline(own, 0.0)
    until(lambda: process.poll() is not None)
    monkeypatch.delenv(lease.VARIABLE)
    assert process.returncode == -signal.SIGKILL


def test_a_node_that_does_not_see_the_runs_or_has_another_version_trains_nothing(
    cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def greet(folder: str, version: str) -> str:
        return ray.Keeper().greet(ray.Order(MODULE, [folder], False, 1, {}, "", version, "", "", 30.0)).problem

    assert "does not see" in greet(str(tmp_path / "elsewhere"), ray._version())
    assert "has rlclinic" in greet(str(tmp_path), "0.0.1")
    assert not greet(str(tmp_path), ray._version())
    monkeypatch.setattr(ray, "_version", iter(["0.0.1", "0.1.0"]).__next__)
    launch = begin("finish", runs, monkeypatch)
    assert launch.wait(PATIENCE)
    assert [run.status.state for run in runs] == ["failed", "failed"]
    assert "Install the same version" in str(runs[0].status.reason)


def test_what_no_node_has_room_for_is_refused(cluster: Cluster, runs: list[Run]) -> None:
    with pytest.raises(UsageError, match="no node of the cluster has that many"):
        ray.start(RayPlace(), [[run.path for run in runs]], threads=3)
    with pytest.raises(UsageError, match="1 GPUs"):
        ray.start(RayPlace(), [[run.path for run in runs]], device="cuda")
    # Ranks and workers of environments are processes, too.
    ranks = Config.model_validate({"env": {"id": "CartPole-v1", "n_envs": 8}, "algo": {"name": "ppo"}, "run": {"data_parallel": 4}})
    (wide,) = Store(runs[0].path.parent).create_group([ranks]).runs
    with pytest.raises(UsageError, match="a cohort takes 4 CPUs"):
        ray.start(RayPlace(), [[runs[0].path], [wide.path]])
    assert [run.status.state for run in runs] == ["queued", "queued"]


def test_a_cluster_whose_nodes_are_gone_is_no_fault_of_the_settings(cluster: Cluster, runs: list[Run]) -> None:
    cluster.machines = [{"Alive": True, "Resources": {}}, {"Alive": False, "Resources": {"CPU": 8.0}}]
    with pytest.raises(ray_cluster.ClusterAway, match="no node of the Ray cluster that takes work is alive"):
        ray.start(RayPlace(), [[runs[0].path]], module=MODULE)


@pytest.mark.parametrize("error", [RuntimeError("the raylet died"), ConnectionError("the Ray client is disconnected")])
def test_a_cluster_that_is_lost_between_two_words_fails_nothing_for_good(
    error: Exception, cluster: Cluster, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Ray's own errors and of its Client's none may come through: the launcher watches other cohorts, too."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    launch = begin("wait", runs, monkeypatch)
    until(lambda: trains(runs[1]), launch)
    monkeypatch.setattr(cluster, "wait", fail)
    monkeypatch.setattr(cluster, "kill", fail)
    while launch.poll():
        time.sleep(0.02)
    assert [run.status.state for run in runs] == ["stopped", "stopped"], "they have stopped by themselves, within their lease"
    monkeypatch.setattr(cluster, "remote", fail)
    launch = begin("wait", runs, monkeypatch)
    assert not launch.poll()
    assert all(batch.is_lost(run) for run in runs), runs[0].status.reason
    monkeypatch.setattr(cluster, "nodes", fail)
    with pytest.raises(ray_cluster.ClusterAway, match="was lost"):
        begin("wait", runs, monkeypatch)


def test_shares_of_gpus_are_places_for_cohorts(cluster: Cluster) -> None:
    cluster.machines = [{"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}}, {"Alive": False, "Resources": {"GPU": 8.0}}]
    assert [ray.count_gpus(RayPlace(gpus=share)) for share in (1.0, 0.25, 0.3, 2.0)] == [2, 8, 6, 1]
    configs = [Config.model_validate({"env": {"id": "CartPole-v1"}, "seed": seed}) for seed in range(8)]
    assert [len(cohort) for cohort in batch.split_into_cohorts(configs, 2, None, "cuda", 4)] == [2, 2, 2, 2]
    assert [len(cohort) for cohort in batch.split_into_cohorts(configs, 2, None, "cuda")] == [8]


def test_secrets_stay_on_the_launchers_machine(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RLCLINIC_DB", "PGPASSWORD", "RLCLINIC_COOKIE_KEY", "RLCLINIC_SERVER", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "sesame-open")
    assert "sesame-open" not in str(ray._environment(runs[0].path))


def test_without_ray_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'rlclinic\[ray\]'"):
        ray.connect(RayPlace("auto"))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "auto", "nowhere", "ray://127.0.0.1:1"])
def test_a_cluster_that_does_not_answer_is_named_at_once(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # One that was killed leaves its address behind, and Ray would wait for it for minutes.
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    began = time.monotonic()
    with pytest.raises(RunError, match="does not answer"):
        ray_cluster._find_address(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(RunError, match="does not answer"):
        ray_cluster._find_address(None)
    assert time.monotonic() - began < 20


# ── on a real cluster ──

if importlib.util.find_spec("ray") is None and not os.environ.get("RLCLINIC_CI"):
    pytest.skip("Ray is not installed: what it does is NOT tested (pip install 'rlclinic[ray]')", allow_module_level=True)


@pytest.mark.parametrize(
    "error", [Exception("The current node timed out during startup."), TimeoutError("no answer"), RuntimeError("gone")]
)
def test_whatever_ray_says_when_it_cannot_connect_the_cluster_is_away_and_nobody_has_failed(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is told so is tried again; a plain Exception ended one for good."""

    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(ray_cluster.load(), "init", fail)
    monkeypatch.setattr(ray_cluster, "_find_address", lambda given: "127.0.0.1:6379")
    with pytest.raises(ray_cluster.ClusterAway, match=str(error).rstrip(".")):
        ray_cluster.connect("auto", 2)


def test_what_the_other_side_of_a_ray_client_says_is_told() -> None:
    error = ConnectionAbortedError(
        "Initialization failure from server:\nTraceback (most recent call last):\n  File ...\nRuntimeError: no port.\n"
    )
    assert ray_cluster.shorten(error) == "Initialization failure from server: RuntimeError: no port"
    assert ray_cluster.shorten(TimeoutError()) == "TimeoutError"


@pytest.fixture(scope="module")
def real() -> Iterator[None]:
    """A cluster of this machine, for all tests that need one: it takes seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (places.VARIABLE, "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):
            patch.setenv(name, "")  # so that it is taken back, whatever it becomes
            del os.environ[name]
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        home = Path("~/.ray").expanduser()
        had_home = home.exists()
        places.choose("ray")
        ray.connect(RayPlace())
        try:
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
            assert home.exists() == had_home
            yield
        finally:
            module = ray.connect()
            node = module._private.worker._global_node
            processes = [started.process for kind in node.all_processes.values() for started in kind]
            with warnings.catch_warnings():
                # It ends its processes without waiting for them, which Python complains about when it comes across what is left of them.
                warnings.simplefilter("ignore")
                module.shutdown()
                for process in processes:
                    process.wait(30)
                ray.forget_idle()
                del node, processes
                gc.collect()


@pytest.mark.filterwarnings("ignore")
def test_training_on_ray_equals_training_here_to_the_byte(real: None, tmp_path: Path) -> None:
    base = Config.model_validate(
        {
            "env": {"id": "CartPole-v1", "n_envs": 2},
            "algo": {"name": "ppo", "n_steps": 32, "batch_size": 32, "n_epochs": 2},
            "run": {"max_env_steps": 512, "eval_every_env_steps": 256, "eval_episodes": 2},
        }
    )
    configs = [base.model_copy(update={"seed": seed}) for seed in range(4)]
    here, there = (Store(tmp_path / name).create_group(configs).runs for name in ("here", "there"))
    from rlclinic.training import __main__ as training

    assert training.train_runs(here)
    # Two shards of two: which members train together changes nothing.
    assert batch.train_runs(there, processes=2, restarts=0)
    for one, other in zip(here, there, strict=True):
        assert one.status.state == other.status.state == "finished"
        columns = [name for name in one.metrics.names if not name.startswith("time")]
        assert columns == [name for name in other.metrics.names if not name.startswith("time")]
        for name in columns:
            np.testing.assert_array_equal(one.metrics[name], other.metrics[name])
        checkpoints = [sorted(run.path.glob("checkpoints/*/*.safetensors")) for run in (one, other)]
        assert [path.parent.name for path in checkpoints[0]] == [path.parent.name for path in checkpoints[1]] != []
        assert [path.read_bytes() for path in checkpoints[0]] == [path.read_bytes() for path in checkpoints[1]]


@pytest.mark.filterwarnings("ignore")
def test_a_killed_ray_worker_leaves_runs_that_are_taken_up_again(real: None, runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "SECONDS", 3.0)
    monkeypatch.setattr(ray, "_PASSED_ON", (*ray._PASSED_ON, "PRETEND"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    launch = begin("wait", runs, monkeypatch)
    until(lambda: trains(runs[1]), launch)
    trainer = pid_of(runs[0])
    assert os.getpriority(os.PRIO_PROCESS, trainer) == os.getpriority(os.PRIO_PROCESS, 0), "it would starve on a busy machine"
    keeper = int(Path(f"/proc/{trainer}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert launch.wait(PATIENCE)
    assert lock.started(trainer) is None
    assert [run.status.state for run in runs] == ["stopped", "stopped"]  # the kernel told the trainer that its keeper is gone
    assert all(batch.is_open(run) for run in runs)
    again = begin("finish", runs, monkeypatch)
    assert again.wait(PATIENCE)
    assert [run.status.state for run in runs] == ["finished", "finished"]


@pytest.mark.filterwarnings("ignore")
def test_actors_on_a_cluster_play_what_actors_of_this_machine_play(real: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algo = {"name": "impala", "n_actors": 2, "n_steps": 8}
    base = {"env": {"id": "CartPole-v1", "n_envs": 2, "normalize_obs": True}, "run": {"max_env_steps": 160, "eval_episodes": 2}}
    configs = {on: Config.model_validate({**base, "algo": {**algo, "actors_on": on}}) for on in ("processes", "ray")}
    here = Store(tmp_path / "here").create_group([configs["processes"]]).runs[0]
    there = Store(tmp_path / "there").create_group([configs["ray"]]).runs[0]
    from rlclinic.training import __main__ as training
    from rlclinic.training.actors import on_ray

    hear, killed = on_ray.RayActor.hear, []

    def with_a_kill(self: on_ray.RayActor) -> Any:
        if len(killed) == 3:  # its environments stand somewhere by then
            self.kill()
        killed.append(self)
        return hear(self)

    monkeypatch.setattr(on_ray.RayActor, "hear", with_a_kill)
    assert training.train_runs([here])
    assert training.train_runs([there])
    assert "another one has taken its place" in (there.path / "run.log").read_text()
    for name in here.metrics.names:
        if not name.startswith("time"):
            np.testing.assert_array_equal(here.metrics[name], there.metrics[name])
    # The trainer of a cohort that Ray has placed finds the cluster by itself.
    far = Store(tmp_path / "far").create_group([configs["ray"]]).runs
    assert batch.train_runs(far, processes=1, restarts=0), far[0].status.reason
    np.testing.assert_array_equal(far[0].metrics["train/loss/value"], here.metrics["train/loss/value"])


def test_a_cluster_that_is_lost_between_two_words_kills_its_actors_and_not_their_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from rlclinic.training.actors import on_ray
    from rlclinic.training.actors.actor import ActorDied, ActorPlan

    def lose(*_: object, **__: object) -> Any:
        raise ConnectionError("the client was disconnected")

    class Lost:
        where = SimpleNamespace(remote=lambda: "asked")
        collect = SimpleNamespace(remote=lose)

    made = SimpleNamespace(remote=lambda plan: Lost())
    gone = SimpleNamespace(
        remote=lambda **_: lambda _: made, exceptions=ray.exceptions, kill=lose, wait=lose, get=lose, is_initialized=lambda: True
    )
    monkeypatch.setattr(on_ray, "_connect", lambda: gone)
    monkeypatch.setattr(ray_cluster, "load", lambda: gone)
    config = Config.model_validate({"env": {"id": "CartPole-v1"}, "algo": {"name": "impala"}})
    first, second = (on_ray.RayActor(ActorPlan(config, (0,), number, 0, ())) for number in range(2))
    assert on_ray.ready([first, second]) == [0, 1]
    first.ask(None)  # type: ignore[arg-type]
    assert on_ray.ready([first, second]) == [0, 1]
    for actor in (first, second):
        with pytest.raises(ActorDied, match="disconnected"):
            actor.hear()
        actor.close()


def test_actors_on_ray_without_a_cluster_are_refused_before_anything_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "is_connected", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    from rlclinic.training.actors import on_ray

    with pytest.raises(ConfigError, match=r"no Ray cluster(?s:.*)--on ray"):
        on_ray._connect()
