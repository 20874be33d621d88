"""The callbacks for RLlib, Tianshou, skrl and TorchRL, against small stand-ins of what those frameworks call.

The real ones are in tests/readers/samples/make_framework_samples.py: `pip install skrl` (tianshou, torchrl, ray[rllib]) and run it.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlclinic import metrics, readers
from rlclinic.errors import UsageError
from rlclinic.runs.export.events import EventFile
from rlclinic.sentinels import rllib, skrl, tianshou, torchrl
from rlclinic.sentinels.transitions import Transitions

S = "train/sentinel/"
ACTIONS, OBS = spaces.Discrete(2), spaces.Box(-5, 5, (3,), np.float32)


def steps(count: int = 20, envs: int = 4, *, frozen: bool = False) -> list[dict[str, Any]]:
    """Made-up transitions: rewards 0 and 1 in turn, an end after every tenth step."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(count, envs, 3)).astype(np.float32)
    return [
        {
            "observations": torch.as_tensor(seen[0 if frozen else place]),
            "actions": torch.full((envs, 1), place % 2),
            "rewards": torch.full((envs, 1), float(place % 2)),
            "terminated": torch.full((envs, 1), place % 10 == 9),
            "truncated": torch.zeros((envs, 1), dtype=torch.bool),
        }
        for place in range(count)
    ]


def test_every_column_is_in_the_metric_dictionary_and_has_the_numbers_of_the_steps() -> None:
    net = torch.nn.Linear(3, 2)
    transitions = Transitions(action_space=ACTIONS, observation_space=OBS, parameters=net.parameters(), every=40)
    rows = [row for step in steps() if (row := transitions.add(*step.values())) is not None]
    assert len(rows) == 2
    assert transitions.env_steps == 80
    assert all(metrics.find(name) is not None for name in rows[0])
    assert (rows[0][S + "reward_mean"], rows[0][S + "action_top_share"]) == (0.5, 0.5)
    assert (rows[0][S + "terminated"], rows[0][S + "truncated"], rows[0][S + "obs_repeat"]) == (4.0, 0.0, 0.0)
    assert rows[1][S + "update_ratio_max"] == 0.0


def test_an_observation_that_stands_still_shows_in_both_directions() -> None:
    by_env, by_time = Transitions(every=10**9), Transitions(every=10**9, in_time=True)
    for step in steps(9, frozen=True):
        by_env.add(*step.values())
    by_time.add(np.ones((9, 3)), np.zeros(9), np.zeros(9), np.arange(9) == 4, np.zeros(9))
    assert by_env.take_row()[S + "obs_repeat"] == 1.0
    assert by_time.take_row()[S + "obs_repeat"] == 1.0
    assert by_time.take_row() == {}


def test_a_step_that_only_resets_is_no_transition() -> None:
    """Gymnasium's NEXT_STEP: the step after an end has the reward 0 and an action that nobody looks at."""
    transitions = Transitions(action_space=ACTIONS, every=10**9, resets_take_a_step=True)
    rng = np.random.default_rng(0)
    for place in range(60):
        resets = place % 6 == 5
        ends = np.full(4, place % 6 == 4)
        paid = np.full(4, 0.0 if resets else -1.0)
        transitions.add(rng.normal(size=(4, 3)), np.full(4, int(resets)), paid, ends, np.zeros(4, dtype=bool))
    row = transitions.take_row()
    assert (row[S + "reward_max"], row[S + "reward_mean"], row[S + "action_top_share"]) == (-1.0, -1.0, 1.0)
    assert (row[S + "terminated"], row[S + "starts"]) == (40.0, 36.0)


def test_steps_are_copied_because_frameworks_write_the_next_one_into_the_same_memory() -> None:
    obs, transitions = np.zeros((2, 3)), Transitions(every=10**9)
    for place in range(4):
        obs[:] = place
        transitions.add(obs, np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))
    assert transitions.take_row()[S + "obs_repeat"] == 0.0


# ── skrl ──


@dataclass
class SkrlSettings:
    learning_rate: float = 0.002
    discount_factor: float = 0.97
    rollouts: int = 16
    learning_epochs: int = 4
    mini_batches: int = 2
    value_preprocessor: type | None = None
    experiment: dict[str, Any] = field(default_factory=dict)


class PPO:
    """As much of an agent as skrl's trainer calls."""

    def __init__(self, folder: Path) -> None:
        self.cfg, self.experiment_dir = SkrlSettings(), str(folder)
        self.models = {"policy": torch.nn.Linear(3, 2), "value": None}
        self.action_space, self.observation_space = ACTIONS, OBS
        self.recorded, self.events = 0, EventFile(folder)
        self.tracked: dict[str, list[float]] = {}

    def track_data(self, tag: str, value: float) -> None:
        self.tracked.setdefault(tag, []).append(value)

    def record_transition(self, **_: Any) -> None:
        self.recorded += 1

    def write_tracking_data(self, *, timestep: int, timesteps: int) -> None:
        self.events.add(timestep, 1.0, {tag: float(np.mean(values)) for tag, values in self.tracked.items()})
        self.tracked.clear()


def test_an_agent_of_skrl_logs_our_columns_and_leaves_its_settings(tmp_path: Path) -> None:
    agent = PPO(tmp_path)
    skrl.watch(agent, env=SimpleNamespace(num_envs=4, spec=SimpleNamespace(id="CartPole-v1")), every=16)
    for place, step in enumerate(steps(32)):
        agent.record_transition(**step, infos={}, timestep=place, timesteps=32)
        if place % 4 == 3:
            agent.track_data("Reward / Total reward (mean)", float(place))
            agent.track_data("Loss / Policy loss", 0.1)
            agent.write_tracking_data(timestep=place + 1, timesteps=32)
    assert agent.recorded == 32
    (found,) = readers.read(tmp_path)
    assert (found.source, found.algo, found.env_id, found.env_steps) == ("skrl", "ppo", "CartPole-v1", 128)
    assert (found.settings["algo.learning_rate"], found.settings["algo.batch_size"]) == (0.002, 32)
    assert {S + "reward_std", S + "obs_repeat", S + "action_top_share"} <= set(found.series)
    assert json.loads((tmp_path / "config.json").read_text())["trainer"] == {"timesteps": 32}


def test_rates_of_two_networks_and_an_environment_among_several_are_found(tmp_path: Path) -> None:
    agent = PPO(tmp_path)
    agent.cfg = {"learning_rate": (1e-3, 1e-3), "rollouts": 16}
    envs = [SimpleNamespace(spec=SimpleNamespace(id="CartPole-v1"))] * 4
    skrl.watch(agent, env=SimpleNamespace(num_envs=4, spec=None, envs=envs), every=16)
    agent.write_tracking_data(timestep=1, timesteps=32)
    kept = json.loads((tmp_path / "config.json").read_text())
    assert (kept["env"], kept["agent"]["learning_rate"]) == ("CartPole-v1", 1e-3)


def test_something_that_is_no_agent_is_an_error_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="no agent of skrl"):
        skrl.watch(object())


# ── Tianshou ──


class Writer:
    """As much of a SummaryWriter as is needed."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, int]] = []
        self.texts: dict[str, str] = {}

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.rows.append((name, value, step))

    def add_text(self, name: str, text: str) -> None:
        self.texts[name] = text


def test_tianshous_hook_writes_columns_at_env_steps_and_the_settings_as_a_text() -> None:
    writer, called = Writer(), []
    env = SimpleNamespace(action_space=[ACTIONS] * 4, observation_space=[OBS] * 4)
    hook = tianshou.SentinelHook(
        writer, env=env, settings={"lr": 1e-3, "net": object(), "task": "CartPole-v1"}, every=40, then=lambda *seen: called.append(seen)
    )
    for step in steps():
        batch = SimpleNamespace(
            obs=step["observations"], act=step["actions"], rew=step["rewards"], terminated=step["terminated"], truncated=step["truncated"]
        )
        hook(None, batch)
    assert len(called) == 20
    assert {step for _, _, step in writer.rows} == {40, 80}
    assert S + "action_top_share" in {name for name, _, _ in writer.rows}
    assert json.loads(writer.texts["config"]) == {"lr": 1e-3, "task": "CartPole-v1"}


# ── TorchRL ──


class Rows(dict[str, Any]):
    """As much of a TensorDict as is needed."""

    def reshape(self, *_: int) -> "Rows":
        return self


def test_torchrls_hook_returns_the_columns_of_a_batch_and_registers_itself() -> None:
    hot = torch.nn.functional.one_hot(torch.arange(12) % 2, 2)
    step = Rows(reward=torch.ones(12, 1), terminated=torch.zeros(12, 1, dtype=torch.bool), truncated=torch.zeros(12, 1, dtype=torch.bool))
    batch = Rows(observation=torch.randn(12, 3), action=hot, next=step)
    hook = torchrl.SentinelHook(action_space=ACTIONS, observation_space=OBS, every=24)
    assert hook(batch) == {}
    found = hook(batch)
    assert (found[S + "reward_mean"], found[S + "action_top_share"], found[S + "truncated"]) == (1.0, 0.5, 0.0)
    registered: dict[str, Any] = {}
    trainer = SimpleNamespace(
        register_op=lambda place, op: registered.update({place: op}), register_module=lambda name, module: registered.update({name: module})
    )
    hook.register(trainer)
    assert registered == {"pre_steps_log": hook, "rlclinic_sentinels": hook}


# ── RLlib ──


@dataclass
class Episode:
    length: int
    is_terminated: bool = True
    is_truncated: bool = False

    def get_rewards(self) -> list[float]:
        return [1.0] * self.length

    def get_observations(self) -> Any:
        return np.arange(3 * (self.length + 1), dtype=np.float32).reshape(-1, 3)

    def get_actions(self) -> list[int]:
        return [place % 2 for place in range(self.length)]


def test_rllibs_callback_logs_through_its_metrics_and_is_read_back(tmp_path: Path) -> None:
    logged: dict[tuple[str, ...], float] = {}
    logger = SimpleNamespace(log_value=lambda key, value, window: logged.update({key: value}))
    runner = SimpleNamespace(env=SimpleNamespace(single_action_space=ACTIONS, single_observation_space=OBS))
    callback = rllib.SentinelCallback.__new__(rllib.SentinelCallback)
    several = SimpleNamespace(agent_episodes={})
    for _ in range(99):
        callback.on_sample_end(env_runner=runner, metrics_logger=logger, samples=[Episode(1, is_terminated=False), Episode(9), several])
    assert logged == {}
    callback.on_sample_end(env_runner=runner, metrics_logger=logger, samples=[Episode(10, is_terminated=False)])
    assert (logged["sentinel", "terminated"], logged["sentinel", "reward_mean"], logged["sentinel", "obs_repeat"]) == (99.0, 1.0, 0.0)
    assert logged["sentinel", "obs_std_min"] > 0
    inner = {name: value for (_, name), value in logged.items()}
    rows = [
        {
            "num_env_steps_sampled_lifetime": 100 * place,
            "env_runners": {"episode_return_mean": 1.0 * place, "sentinel": inner},
            "learners": {},
        }
        for place in range(1, 6)
    ]
    (tmp_path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = readers.read(tmp_path)
    assert found.source == "rllib"
    assert found[S + "reward_mean"].values.tolist() == [1.0] * 5


def test_none_of_the_frameworks_is_imported_and_no_torch() -> None:
    code = (
        "import sys; from rlclinic.sentinels import rllib, skrl, tianshou, torchrl;"
        "print([name for name in ('torch', 'skrl', 'tianshou', 'torchrl') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
