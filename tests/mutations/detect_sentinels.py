"""Detectors for what training says about itself: which rows it measures, which state it names, what it compares with."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from rlclinic.config import EnvConfig
from rlclinic.training import envs
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.loops import on_policy
from rlclinic.training.sentinels import fingerprints, on_policy_sentinels, random_policy
from rlclinic.training.sentinels.on_policy_sentinels import Seen
from tests.mutations.tiny import CPU, Cohort, config, folders
from tests.training.tasks import Signs


def rows_that_do_not_count_are_not_measured() -> None:
    """Whatever stands in rows that are no transition, readings and sentinels are the same."""
    cohort = Cohort([config(env={"max_episode_steps": 5})])
    plain, poisoned = _measured(cohort, 0.0), _measured(Cohort([cohort.config]), 7.0)
    different = [name for name, value in plain.items() if not torch.equal(value.nan_to_num(9.0), poisoned[name].nan_to_num(9.0))]
    assert not different, f"rows that are no transition change {', '.join(different)}"
    assert float(plain["train/sentinel/next_obs_is_reset"].max()) == 0.0, "the row of a reset is taken for the start that follows it"


def _measured(cohort: Cohort, poison: float) -> dict[str, Tensor]:
    """Readings and sentinels of one iteration in which the step after each end is no transition."""
    rollout, hp = cohort.collect(), cohort.numbers()
    valid = torch.cat([torch.ones_like(rollout.end[:, :1]), ~rollout.end[:, :-1]], 1)
    wide = valid.unsqueeze(-1)
    # As a NEXT_STEP env has it: the step after the end acts on the final observation.
    following = torch.where(rollout.end.unsqueeze(-1), rollout.next_obs, rollout.following)
    rollout = replace(rollout, valid=valid, following=following)
    rollout = replace(rollout, **{name: torch.where(wide, x := getattr(rollout, name), x + poison) for name in ("obs", "next_obs")})
    rollout = replace(rollout, reward=torch.where(valid, rollout.reward, rollout.reward + poison), net_obs=rollout.obs)
    whole, raw = on_policy.estimate_advantages(cohort.plan, cohort.learner, rollout, hp)
    whole = whole._replace(log_prob=torch.where(valid.flatten(1), whole.log_prob, whole.log_prob + poison))
    after, readings, last_minibatch = on_policy.learn(cohort.plan, cohort.learner, whole, hp, None, cohort.seed, 0)
    elapsed = Episodes(2, 2).add(rollout)
    seen = Seen(cohort.learner, after, rollout, whole, raw, readings, last_minibatch, elapsed)
    return readings | on_policy_sentinels.every_row(cohort.plan, seen, cohort.env)


def fingerprints_are_of_the_bytes() -> None:
    """Another order, another last bit, other moments: another fingerprint. The same bytes: the same."""
    x = torch.linspace(1.0, 2.0, 8).view(1, 8)
    seen = [fingerprints.of(y).item() for y in (x, x.flip(1), torch.nextafter(x, torch.tensor(9.0)))]
    assert len(set(seen)) == 3, "another order or another last bit has the same fingerprint"
    assert fingerprints.of(x.clone()).item() == seen[0], "the same bytes have another fingerprint"
    cohort = Cohort([config()])
    before = fingerprints.of_state(cohort.learner, cohort.seed.view(-1, 1), 0, cohort.env)
    moments = cohort.learner.optimizer
    moved = replace(cohort.learner, optimizer=moments._replace(mean=moments.mean + 1.0))
    after = fingerprints.of_state(moved, cohort.seed.view(-1, 1), 0, cohort.env)
    assert not bool((before["fingerprint_optimizer"] == after["fingerprint_optimizer"]).any()), "the optimizer's moments are left out"


def random_actions_are_uniform() -> None:
    """Two actions, each of them half of the time."""
    env = envs.make(EnvConfig(id="CartPole-v1"), [0], 50, evaluation=True)
    taken = torch.cat([random_policy.uniform(env, None, t, CPU) for t in range(40)], 1).float()
    assert abs(float(taken.mean()) - 0.5) < 0.05, f"the random policy takes action 1 in {float(taken.mean()):.0%} of steps"


class _Counted(Signs):
    """Signs that count the steps of all copies together."""

    steps = 0

    def step(self, action: Any) -> Any:
        type(self).steps += 1
        return super().step(action)


def who_has_left_is_stepped_no_more() -> None:
    """Of two members one is asked to stop after the first row of six."""
    _Counted.steps = 0

    def leave(row: dict[str, Any]) -> None:
        if row["run"].seed == 1 and row["total_timesteps"] == 32:
            row["run"].ask(stop=True)

    with TemporaryDirectory() as folder:
        made = config("Counted", env={"log_terms": []}, run={"eval_episodes": 0, "checkpoint_every_env_steps": 32})
        train_runs(folders(Path(folder), made, seeds=(0, 1)), factory=_Counted, callback=leave)
    assert _Counted.steps == 192 + 32, f"{_Counted.steps} steps were taken in environments, 224 were needed"


DETECTORS = (
    fingerprints_are_of_the_bytes,
    random_actions_are_uniform,
    rows_that_do_not_count_are_not_measured,
    who_has_left_is_stepped_no_more,
)
