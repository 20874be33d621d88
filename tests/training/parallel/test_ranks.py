"""Several ranks train the run that one process trains, resume it to the byte, and say who is missing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from rlclinic.config import Config
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.training import assembly
from rlclinic.training.__main__ import train_runs
from rlclinic.training.fast import gradients
from rlclinic.training.loops import on_policy
from rlclinic.training.parallel import calibration, ranks, shares, watch
from rlclinic.training.parallel.calibration import Speed
from rlclinic.training.parallel.part import RankPart
from rlclinic.training.parallel.ranks import Ranks
from tests.training import tasks
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, table, train

RUN = {"max_env_steps": 576, "checkpoint_every_env_steps": 192, "eval_every_env_steps": 192, "allow_slower": True}
NORMALIZED = {"normalize_obs": True, "normalize_reward": True, "max_episode_steps": 20}
ALGO = {"n_steps": 16, "batch_size": 32, "target_kl": 0.05}


def config_of(world: int, seed: int = 0, kind: str = "ppo", env: dict[str, Any] | None = None, **run: Any) -> Config:
    algo = ALGO if kind == "ppo" else {"n_steps": 24}
    shape = {"n_envs": 4, **NORMALIZED, **(env or {})}
    return make_config(kind, shape, seed, algo=algo, net={"hidden": [16]}, run={**RUN, "data_parallel": world, **run})


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    """Two ranks that stay for all tests: starting one takes seconds."""
    here = ranks.begin(2, torch.device("cpu"))
    ranks.joined.append(here)
    yield here
    ranks.leave()


def assert_close(one: Run, other: Run, rtol: float = 2e-3) -> None:
    """The same numbers to rounding: everything but what hashes the last bit, and what only ranks have."""
    skipped = ("train/sentinel/fingerprint_", "train/sentinel/ranks_")
    rows, others = (table(run, without=skipped) for run in (one, other))
    assert len(rows) == len(others) > 2
    for row, twin in zip(rows, others, strict=True):
        for name, cell in row.items():
            if name not in twin:
                continue
            assert bool(cell) == bool(twin[name]), (name, cell, twin[name])
            if cell and "error" not in name:
                assert np.isclose(float(cell), float(twin[name]), rtol=rtol, atol=2e-4), (row["total_timesteps"], name, cell, twin[name])


@pytest.mark.usefixtures("two")
def test_ranks_of_one_machine_leave_the_choice_of_a_network_to_what_is_started_later() -> None:
    """A loopback that is left behind has ranks on other machines wait for each other without end."""
    assert "GLOO_SOCKET_IFNAME" not in os.environ


def test_two_ranks_train_the_run_of_one_process(two: Ranks, tmp_path: Path) -> None:
    alone = train(tmp_path / "alone", [config_of(1, seed) for seed in (3, 8)])
    together = train(tmp_path / "together", [config_of(2, seed) for seed in (3, 8)])
    for one, other in zip(together, alone, strict=True):
        assert_close(one, other)
        # Before the first update nothing was summed: the same bits, down to the episodes and the normalizers.
        first, twin = table(one)[0], table(other)[0]
        same = (
            "reward_mean",
            "adv_mean",
            "adv_std",
            "value_mean",
            "return_std",
            "obs_abs_max",
            "fingerprint_normalizer",
            "fingerprint_random",
        )
        assert {name: first[f"train/sentinel/{name}"] for name in same} == {name: twin[f"train/sentinel/{name}"] for name in same}
        assert first["train/roll/ep_rew_mean"] == twin["train/roll/ep_rew_mean"]
        for row in table(one):
            assert float(row["train/sentinel/ranks_rows_min"]) == float(row["train/sentinel/ranks_rows_max"]) == 16
            if row["train/sentinel/ranks_gradient_error"]:
                assert float(row["train/sentinel/ranks_gradient_error"]) < 1e-5
                assert {float(row[f"train/sentinel/ranks_{name}"]) for name in ("differ", "normalizers_differ", "copies")} == {0.0}
    assert any(row["train/sentinel/ranks_differ"] for row in table(together[0]))
    assert Run(together[0].path).record["engine"]["ranks"] == 2
    assert "data parallel: an iteration takes about" in (together[0].path / "run.log").read_text()


def test_a_run_of_two_ranks_resumes_as_if_it_had_never_stopped(two: Ranks, tmp_path: Path) -> None:
    straight = train(tmp_path / "straight", [config_of(2, seed) for seed in (1, 4)])
    with pytest.raises(Interrupted):
        train(tmp_path / "broken", [config_of(2, seed) for seed in (1, 4)], callback=interrupt_at(384))
    broken = [Run(path) for path in sorted((tmp_path / "broken" / "runs").glob("*-s*"))]
    assert all(0 < run.checkpoint("@last").step < 576 for run in broken)
    assert train_runs(broken, resume=True)
    by_seed = {run.seed: run for run in broken}
    for run in straight:
        assert_same_run(by_seed[run.seed], run)


def test_a_sharded_optimizer_trains_and_saves_the_same(two: Ranks, tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", [config_of(2, 5)])[0]
    shared = train(tmp_path / "shared", [config_of(2, 5, shard_optimizer=True)])[0]
    assert_close(shared, whole)
    with pytest.raises(Interrupted):
        train(tmp_path / "broken", [config_of(2, 5, shard_optimizer=True)], callback=interrupt_at(384))
    broken = Run(next((tmp_path / "broken" / "runs").glob("*-s*")))
    assert train_runs([broken], resume=True)
    assert_same_run(broken, shared)
    # A checkpoint of either is the same kind of checkpoint: all moments, of all weights.
    sizes = [
        {name: tensor.shape for name, tensor in assembly.files.read(run.checkpoint("@last").path).optimizer.items()}
        for run in (whole, shared)
    ]
    assert sizes[0] == sizes[1]


def test_shared_weights_train_and_save_the_same(two: Ranks, tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", [config_of(2, seed, engine="reference") for seed in (5, 6)])
    shared = train(tmp_path / "shared", [config_of(2, seed, shard_weights=True) for seed in (5, 6)])
    for one, other in zip(shared, whole, strict=True):
        assert_close(one, other)
        for row in table(one):
            if row["train/sentinel/ranks_gradient_error"]:
                assert float(row["train/sentinel/ranks_gradient_error"]) < 1e-5
                assert float(row["train/sentinel/ranks_differ"]) == 0.0
    with pytest.raises(Interrupted):
        train(tmp_path / "broken", [config_of(2, seed, shard_weights=True) for seed in (5, 6)], callback=interrupt_at(384))
    broken = [Run(path) for path in sorted((tmp_path / "broken" / "runs").glob("*-s*"))]
    assert train_runs(broken, resume=True)
    by_seed = {run.seed: run for run in broken}  # ids of runs are drawn: their order is not that of the seeds
    for run in shared:
        assert_same_run(by_seed[run.seed], run)
    # A checkpoint is that of one process: all weights, all moments.
    read = [assembly.files.read(run.checkpoint("@last").path) for run in (whole[0], shared[0])]
    for part in ("policy", "optimizer"):
        sizes = [{name: tensor.shape for name, tensor in getattr(one, part).items()} for one in read]
        assert sizes[0] == sizes[1]


def test_a2c_and_environments_of_gymnasium_train_as_with_one_process(two: Ranks, tmp_path: Path) -> None:
    for kind, env in (("a2c", {}), ("ppo", {"native": "never"}), ("ppo", {"id": "Pendulum-v1", "frame_stack": 2})):
        alone, together = (train(tmp_path / f"{kind}{len(env)}{world}", [config_of(world, 2, kind, env)])[0] for world in (1, 2))
        assert_close(together, alone)


def test_a_checkpoint_of_two_ranks_goes_on_with_one_process_in_a_fork(two: Ranks, tmp_path: Path) -> None:
    parent = train(tmp_path, [config_of(2, 7)])[0]
    whole = train(tmp_path, [config_of(1, 7)], parent=f"{parent.id}@384", start="fork")[0]
    assert "fork from env step 384, exactly where it was" in (whole.path / "run.log").read_text()
    both = [{row["total_timesteps"]: row for row in table(run)} for run in (parent, whole)]
    assert np.isclose(*(float(rows["576"]["train/sentinel/weight_norm"]) for rows in both), rtol=1e-4)


def test_what_breaks_on_another_rank_ends_its_member_and_no_other(two: Ranks, tmp_path: Path) -> None:
    broken = {
        "id": "tests.training.parallel.test_ranks:Breaks",
        "normalize_obs": False,
        "normalize_reward": False,
        "max_episode_steps": None,
    }
    runs = train(tmp_path, [config_of(2, seed, env=broken) for seed in (1, 2)])
    assert [run.status.state for run in runs] == ["failed", "failed"]
    assert "rank 1: " in (runs[0].status.reason or "")
    assert "no more" in (runs[0].status.reason or "")


class Breaks(tasks.Signs):
    """Signs that breaks where it is an environment of rank 1."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps > 40 and os.environ.get("RANK") == "1":
            raise ValueError("no more")
        return super().step(action)


class Store:
    """A store of words, as ranks share one."""

    def __init__(self) -> None:
        self.words: dict[str, bytes] = {}

    def set(self, key: str, text: str) -> None:
        self.words[key] = text.encode()

    def get(self, key: str) -> bytes:
        return self.words[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self.words for key in keys)


def heart_of(*others: watch.Beat) -> tuple[watch.Heart, list[str]]:
    """Rank 0's heart, in a collective since ten seconds, with what the other ranks say."""
    store, pulse, said = Store(), watch.Pulse(), []
    pulse.sequence = 6
    pulse.enter("gradient")
    pulse.since -= 10.0
    heart = watch.Heart(store, 0, len(others) + 1, pulse)
    heart.say = said.append
    for rank, beat in enumerate(others):
        store.set(f"rlclinic/rank/{rank + 1}", watch.json.dumps(beat))
    return heart, said


def test_collectives_that_never_meet_are_named_with_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "DEADLOCK_SECONDS", 0.0)
    heart, _ = heart_of(watch.Beat(7, "gradient", "learning", 9.0, 3), watch.Beat(6, "rollouts", "learning", 9.0, 3))
    heart._look(1)
    assert heart.reason is not None
    assert "hanging collective" in heart.reason
    assert "rank 2 in collective 6 (rollouts)" in heart.reason


def test_a_rank_that_computes_is_waited_for_and_named() -> None:
    heart, said = heart_of(watch.Beat(6, None, "playing", 9.0, 3))
    heart._look(1)
    assert heart.reason is None
    assert said == ["rank 0 is in collective 7 (gradient) for 10 s and waits for rank 1, playing for 9 s, after 6 collectives"]
    heart._look(2)
    assert len(said) == 1, "once for each collective"


def test_ranks_that_are_all_in_one_collective_are_left_alone() -> None:
    heart, said = heart_of(watch.Beat(7, "gradient", "learning", 9.0, 3))
    heart._look(1)
    assert (heart.reason, said) == (None, [])


def test_last_words_of_a_rank_are_the_reason() -> None:
    heart, _ = heart_of(watch.Beat(6, None, "playing", 1.0, 3))
    heart._store.set("rlclinic/rank/1/end", "ValueError: no such thing")
    heart._look(1)
    assert heart.reason == "rank 1 ended: ValueError: no such thing"


def test_slower_than_one_process_is_refused_with_the_number(two: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "measure", lambda part: Speed(0.1, 0.4))
    with pytest.raises(ConfigError, match=r"0\.25x \(measured\)[\s\S]*--force"):
        train(tmp_path, [config_of(2, allow_slower=False)])
    monkeypatch.setattr(calibration, "measure", lambda part: Speed(0.4, 0.2))
    assert train(tmp_path, [config_of(2, allow_slower=False)])[0].status.state == "finished"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"env": {"n_envs": 3}}, r"does not divide env.n_envs=3[\s\S]*n_envs=4"),
        ({"algo": {"batch_size": 3, "n_steps": 3}}, "does not divide minibatches of 3 rows"),
        ({"run": {"data_parallel": 2, "engine": "compiled"}}, "A compiled step"),
        ({"run": {"shard_optimizer": True}}, "nobody to share"),
        ({"run": {"shard_weights": True}}, r"run.shard_weights=true[\s\S]*nobody to share"),
        ({"algo": {"optimizer": "lamb"}, "run": {"data_parallel": 2, "shard_weights": True}}, "LAMB scales every layer"),
        ({"bonus": {"kind": "rnd"}}, "bonus with run.data_parallel=2"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(changes: dict[str, Any], said: str) -> None:
    run = changes.pop("run", {"data_parallel": 2})
    with pytest.raises((ConfigError, ValidationError), match=said):
        make_config("ppo", changes.pop("env", {}), run={"max_env_steps": 300, **run}, **changes)


def test_other_algorithms_are_refused_with_what_to_type() -> None:
    with pytest.raises((ConfigError, ValidationError), match=r"with dqn[\s\S]*data_parallel=1[\s\S]*algo.name=ppo"):
        make_config("dqn", run={"data_parallel": 2})


def test_shares_are_all_of_it_and_do_not_overlap() -> None:
    for share, total in ((shares.envs, 12), (shares.rows, 64), (shares.weights, 13)):
        parts = [share(total, rank, 4) for rank in range(4)]
        assert [index for part in parts for index in range(total)[part]] == list(range(total))


def test_tensors_survive_the_way_as_bytes() -> None:
    given = {
        "flags": torch.tensor([[True, False, True]]),
        "bytes": torch.tensor([1, 2, 3], dtype=torch.uint8),
        "doubles": torch.rand(2, 3).double(),
    }
    for device in [torch.device("cpu")]:
        back = ranks.unpack(ranks.shapes_of(given), ranks.pack(given, device))
    assert all(torch.equal(back[name], tensor) and back[name].dtype == tensor.dtype for name, tensor in given.items())


def test_another_number_of_ranks_than_the_config_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match=r"run.data_parallel=2, but WORLD_SIZE=4"):
        ranks.check_world(2)


def run_exchange(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.training.parallel.exchange", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_three_ranks_sum_in_their_order_through_memory_and_through_the_network() -> None:
    """The same bytes wherever ranks run; gloo's own ring adds in another order, which only runs from before it was corrected keep."""
    found = run_exchange("3")
    assert found["memory"] == found["network"] == found["by hand"]
    assert found["shared"] is True
    assert found["ring close"] is True


def test_ranks_that_mean_different_messages_are_named() -> None:
    error = run_exchange("2", "different")["error"]
    assert "hanging collective" in error
    assert "rank 1 in collective" in error
    assert "(something else)" in error


@pytest.mark.parametrize("share", [{}, {"shard_weights": True}])
def test_ranks_learn_from_images_with_convolutions_of_fewer_bits_and_nobody_is_called_wrong(
    two: Ranks, tmp_path: Path, share: dict[str, bool]
) -> None:
    """Mixed precision: convolutions in bfloat16, all weights, sums and the optimizer in float32."""
    shape = {"id": "tests.training.pictures:Bright", "n_envs": 4, "normalize_obs": False, "normalize_reward": False}
    net = {"hidden": [16], "image_precision": "bfloat16", "image_features": 16}
    config = make_config("ppo", shape, 3, algo=ALGO, net=net, run={**RUN, "data_parallel": 2, **share})
    (run,) = train(tmp_path, [config])
    assert run.status.state == "finished", run.status.reason
    rows = [row for row in table(run) if row["train/sentinel/ranks_gradient_error"]]
    assert rows
    assert {float(row["train/sentinel/ranks_differ"]) for row in rows} == {0.0}
    assert max(float(row["train/sentinel/ranks_gradient_error"]) for row in rows) < 1e-5
    assert max(float(row["train/sentinel/ratio_first_dev"]) for row in rows) < 1e-4, "acting rounds as learning does"


@pytest.mark.parametrize(("precision", "products"), [("tf32", True), ("float32", False)])
def test_products_of_ten_bits_are_those_of_the_gradient_alone(
    two: Ranks, tmp_path: Path, precision: str, products: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On GPUs: what acts and what looks after itself has all bits. Nothing of it is computed differently on a CPU."""
    seen: dict[str, set[bool]] = {"learning": set(), "checking": set(), "playing": set()}
    learn, collect, check = gradients.gradient, on_policy.collect, RankPart._check_gradient
    where = ["learning"]

    def note(what: str) -> None:
        seen[what].add(torch.backends.cuda.matmul.allow_tf32)

    def gradient(*given: Any) -> Any:
        note(where[0])
        return learn(*given)

    def collected(*given: Any, **more: Any) -> Any:
        note("playing")
        return collect(*given, **more)

    def checked(part: RankPart) -> Any:
        where[0] = "checking"
        try:
            return check(part)
        finally:
            where[0] = "learning"

    monkeypatch.setattr(gradients, "gradient", gradient)
    monkeypatch.setattr(on_policy, "collect", collected)
    monkeypatch.setattr(RankPart, "_check_gradient", checked)
    train(tmp_path, [config_of(2, 1, precision=precision)])
    assert seen == {"learning": {products}, "checking": {False}, "playing": {False}}


def test_ranks_compute_on_what_rank_0_says_which_alone_has_a_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one meets over nccl and the others over gloo: nobody ever comes."""
    store, made = Store(), []
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ranks._torch, "rendezvous", lambda *_, **__: iter([(store, 1, 2)]))
    monkeypatch.setattr(ranks, "device_of", lambda local_rank, device: torch.device(device.type, local_rank))
    monkeypatch.setattr(ranks, "Ranks", lambda *given: made.append(given[3]))
    assert ranks.agree_on_device(store, 0, torch.device("cuda")) == torch.device("cuda")
    ranks.join()
    assert ranks.agree_on_device(store, 0, None) == torch.device("cpu")
    ranks.join()
    assert made == [torch.device("cuda", 1), torch.device("cpu", 1)]


def stub_of(device: str) -> Ranks:
    """A rank without others, on a device that this machine may not have."""
    here = Ranks.__new__(Ranks)
    here.rank, here.world, here.device, here.memory, here.in_order, here.waited = 1, 2, torch.device(device), None, True, 0.0
    here.pulse, here.broken = watch.Pulse(), False
    here.heart = watch.Heart(Store(), 1, 2, here.pulse)
    return here


def test_whoever_waits_for_a_gpu_waits_inside_of_the_collective_and_what_was_broken_off_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """nccl only queues a collective, and ends none because another rank has died."""
    here, seen, aborted = stub_of("cuda"), [], []

    class Stream:
        def synchronize(self) -> None:
            seen.append(here.pulse.collective)
            if len(seen) == 2:
                here.heart._give_up("rank 0 was killed by SIGKILL")

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(ranks.dist, "all_reduce", lambda buffer: None)
    here.heart.abort = lambda: aborted.append(True)
    assert here.sum("gradient", torch.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(watch.RankLost, match="killed by SIGKILL"):
        here.sum("gradient", torch.ones(2))
    assert (seen, aborted) == (["gradient", "gradient"], [True])


def test_what_ranks_meet_with_lies_where_they_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    here, sent = stub_of("meta"), []
    monkeypatch.setattr(ranks.dist, "all_reduce", lambda buffer: sent.append(buffer.device.type))
    here.meet()
    assert sent == ["meta"], "nccl takes nothing from elsewhere"
