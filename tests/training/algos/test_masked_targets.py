"""Actions that are forbidden in the next state are no part of what Q-values are learned towards."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.envs.toy_text.taxi import TaxiEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from rlclinic.config import Config, corrections
from rlclinic.training import assembly, envs, replay_assembly
from rlclinic.training.data import replay
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.policy import Policy
from tests.training import tasks
from tests.training.cohorts import train

REPLAY = {
    "buffer_size": 2_000, "learning_starts": 100, "batch_size": 32, "train_freq": 4, "gradient_steps": 2, "learning_rate": 1e-2,
    "target_update_interval": 40, "exploration_fraction": 0.5, "exploration_final_eps": 0.3,
}  # fmt: skip
ALGOS: dict[str, dict[str, Any]] = {
    "q_learning": {"name": "q_learning", "learning_rate": 0.2, "exploration_final_eps": 0.3},
    "dqn": {"name": "dqn", **REPLAY},
    "double dqn": {"name": "dqn", **REPLAY, "double": True, "dueling": True},
    "dqn by priority, three steps, one copy": {
        "name": "dqn", **REPLAY, "prioritized": True, "n_step": 3, "optimize_memory_usage": True
    },
}  # fmt: skip


def config(kind: str, seed: int, engine: str = "eager") -> Config:
    return Config.model_validate(
        {
            "env": {"id": "Trap", "n_envs": 2, "action_mask": True},
            "algo": {"gamma": 0.99, **ALGOS[kind]},
            "net": {"hidden": [16], "activation": "relu"},
            "run": {"max_env_steps": 2_000, "eval_episodes": 1, "engine": engine},
            "seed": seed,
        }
    )


@pytest.mark.parametrize(("kind", "engine"), [*((kind, "eager") for kind in ALGOS), ("dqn", "reference")])
def test_a_way_that_looks_cheap_only_by_a_forbidden_action_is_not_taken(tmp_path: Path, kind: str, engine: str) -> None:
    for run in train(tmp_path, [config(kind, seed, engine) for seed in (0, 1, 2)], factory=tasks.Trap):
        policy = Policy(run.config, run.checkpoint("@last").path, tasks.Trap)
        params = evaluated(policy)
        first = params[0, 0].tolist()
        assert first[0] == pytest.approx(-10.9, abs=0.6), f"Q(0, 0) is {first[0]:.2f}"
        assert first[1] == pytest.approx(-5.0, abs=0.6)
        assert policy.act(0, action_mask=np.array([True, True])) == 1


def evaluated(policy: Policy) -> torch.Tensor:
    """Q-values [1, states, actions] of both states."""
    plan, learner = policy._plan, policy._learner
    with torch.no_grad():
        return plan.algo.values(plan.config, off_policy.networks(plan, learner), torch.eye(2).unsqueeze(0))


def test_a_row_that_allows_nothing_keeps_its_values_so_that_nothing_becomes_infinite() -> None:
    q = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    mask = torch.tensor([[[True, False], [False, False]]])
    assert exploration.forbid(q, mask).amax(-1).tolist() == [[1.0, 4.0]]


def vector(num_envs: int, mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: TimeLimit(TaxiEnv(), 7)] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize("way", ["native", "gymnasium", "workers", "SAME_STEP", "NEXT_STEP", "DISABLED"])
def test_masks_are_kept_for_where_actions_led_also_at_a_limit(way: str) -> None:
    """Taxi: the mask of the next observation, which at a limit is the final one, not the reset's."""
    settings = {"native": {}, "workers": {"native": "never", "workers": 1}}.get(way, {"native": "never"})
    own = partial(vector, mode=AutoresetMode[way]) if way in AutoresetMode.__members__ else None
    made = Config.model_validate(
        {
            "env": {"id": "Taxi-v3", "n_envs": 2, "action_mask": True, **({} if own else {"max_episode_steps": 7}), **settings},
            "algo": {"name": "q_learning"},
            "run": {"max_env_steps": 400},
        }
    )
    truth = TaxiEnv()
    env = envs.make(made.env, [0], 2, factory=own)
    plan: Any = assembly.plan_for(made, env)
    memory = replay_assembly.memory_for(plan, 1, torch.device("cpu"))
    assert memory.shape.masks == 6
    env.reset()
    mask, cuts = env.action_mask, 0
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        assert mask is not None
        step = env.step(torch.multinomial(mask[0].float(), 1, generator=generator).view(1, 2))
        assert step.next_action_mask is not None
        for row in range(2):
            if not bool(step.terminated[0, row]) and (step.valid is None or bool(step.valid[0, row])):
                expected = truth.action_mask(int(step.next_obs[0, row].argmax())).astype(bool).tolist()
                assert step.next_action_mask[0, row].tolist() == expected
                cuts += int(step.truncated[0, row])
        mask = step.action_mask
    env.close()
    assert cuts > 4


def test_runs_begun_under_the_old_meaning_are_refused_and_others_are_not() -> None:
    old = [name for name in corrections.CORRECTIONS if name != "masked_q_targets"]
    text = corrections.refusal("it", old, config("dqn", 0), skips=False)
    assert text is not None
    assert "forbidden actions" in "".join(text)
    free = config("dqn", 0)
    unmasked = free.model_copy(update={"env": free.env.model_copy(update={"action_mask": False})})
    assert corrections.refusal("it", old, unmasked, skips=False) is None
    assert replay.Shape(8, 2, (3,), 1).masks == 0
