"""The Decision Transformer: what it sees, what it is asked for, and what it must not know."""

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from rlclinic.config import load
from rlclinic.datasets import Episode, Space, folder
from rlclinic.errors import ConfigError, UsageError
from rlclinic.serve.cli.app import app
from rlclinic.training import envs, evaluation
from rlclinic.training.algos.offline import dt
from rlclinic.training.nets.transformer import Windows
from rlclinic.training.policy import Policy
from tests.training.cohorts import train
from tests.training.recordings import Bench, bench, make_config

KIND = pytest.mark.parametrize("kind", ["dt", "dt of choices"])


def prepared(kind: str, **algo: object) -> Bench:
    at = bench(make_config(kind, algo={**make_config(kind).algo.model_dump(), **algo}))
    at.learner.nets.update(dt.prepare(at.plan, at.learner, at.data))
    return at


def windows_of(at: Bench, *rows: int) -> Windows:
    return dt.gather(at.plan, at.learner, at.data, torch.tensor([rows]))


@KIND
def test_nothing_that_comes_later_changes_a_prediction_by_a_bit(kind: str) -> None:
    """The action of a step itself is later: it is what is predicted."""
    at = prepared(kind, context=6)
    windows, params = windows_of(at, 10, 15), at.networks()
    before = dt.predict(at.plan, params, windows)
    for step in range(6):
        later = Windows(*(part.clone() for part in windows))
        later.action[:, :, step:] = torch.rand_like(later.action[:, :, step:])
        later.obs[:, :, step + 1 :] += 3.0
        later.return_to_go[:, :, step + 1 :] -= 7.0
        after = dt.predict(at.plan, params, later)
        assert torch.equal(after[:, :, : step + 1], before[:, :, : step + 1]), step
        if step < 5:
            assert not torch.equal(after[:, :, step + 1 :], before[:, :, step + 1 :]), "what came before is seen"


@KIND
def test_steps_that_only_fill_up_change_nothing(kind: str) -> None:
    at = prepared(kind, context=5)
    windows, params = windows_of(at, 1), at.networks()
    assert windows.there[0, 0].tolist() == [False, False, False, True, True], "the second step of an episode"
    other = Windows(*(part.clone() for part in windows))
    other.obs[:, :, :3], other.return_to_go[:, :, :3] = 9.0, -9.0
    assert torch.equal(dt.predict(at.plan, params, other)[:, :, 3:], dt.predict(at.plan, params, windows)[:, :, 3:])
    assert torch.equal(dt.actor_loss(at.plan, params, other)[0], dt.actor_loss(at.plan, params, windows)[0])


@KIND
def test_the_loss_is_the_mean_over_the_steps_that_there_were(kind: str) -> None:
    at = prepared(kind, context=4)
    windows, params = windows_of(at, 1, 8), at.networks()
    out, total = dt.predict(at.plan, params, windows)[0], 0.0
    for row, there in enumerate(windows.there[0].tolist()):
        for step in [step for step, real in enumerate(there) if real]:
            given, done = out[row, step], windows.chosen[0, row, step]
            if kind == "dt":
                total += float((given - done).square().mean())
            else:
                logits = given.tolist()
                total += math.log(sum(map(math.exp, logits))) - logits[int(done)]
    assert float(dt.actor_loss(at.plan, params, windows)[0]) == pytest.approx(total / int(windows.there.sum()), rel=1e-4)


def test_a_window_holds_the_last_steps_of_one_episode_and_what_was_still_to_come() -> None:
    at = prepared("dt", context=4)
    data = at.data.data
    row = int(data.ends[0]) + 2  # the third step of the second episode
    window = at.data.window(torch.tensor([[row]]), 4)
    rewards = data.rewards[data.ends[0] : data.ends[1]]
    assert window.there[0, 0].tolist() == [False, True, True, True]
    assert window.step[0, 0, 1:].tolist() == [0, 1, 2]
    assert window.return_to_go[0, 0, 1:].tolist() == pytest.approx([rewards[first:].sum() for first in range(3)], rel=1e-4)
    assert window.obs[0, 0, 1].tolist() == data.observations[int(data.ends[0]) + 1].tolist(), (
        "an episode has an observation more than steps"
    )


def test_the_return_that_is_asked_for_is_the_highest_of_the_data_less_what_was_earned() -> None:
    at = prepared("dt")
    target, scale = dt.prepare(at.plan, at.learner, at.data)[dt.CONDITION][0].tolist()
    assert target == pytest.approx(at.data.episode_returns.max(), rel=1e-5)
    assert scale == pytest.approx(abs(at.data.episode_returns).max(), rel=1e-5)
    past = dt.begin(at.plan, at.learner, torch.zeros(1, 2, 3))
    past = dt.meet(at.plan, past, torch.ones(1, 2, 3), 0)
    past = dt.earn(dt.remember(at.plan, past, torch.full((1, 2, 1), 0.5)), torch.tensor([[1.0, -2.0]]))
    past = dt.meet(at.plan, past, torch.ones(1, 2, 3), 1)
    asked = (past.windows.return_to_go[0, :, -2:] * scale).tolist()
    assert asked == [pytest.approx([target, target - 1.0], rel=1e-4), pytest.approx([target, target + 2.0], rel=1e-4)]
    assert past.windows.action[0, 0, :, 0].tolist() == [0.0, 0.5, 0.0]
    assert past.windows.there[0, 0].tolist() == [False, True, True]


@KIND
def test_acting_sees_in_an_episode_what_training_would_see_of_it(kind: str) -> None:
    """The windows that are kept while acting are those that are cut from the recorded episode afterwards."""
    at = prepared(kind, context=3)
    data, learner = at.data.data, at.learner
    steps = 5
    total = float(data.returns[0])
    learner.nets[dt.CONDITION][:, 0] = total
    past = dt.begin(at.plan, learner, torch.zeros(1, 1, data.observations.shape[1]))
    for step in range(steps):
        obs = dt.off_policy.normalize_obs(at.plan, learner, torch.from_numpy(data.observations[step]).view(1, 1, -1))
        past = dt.meet(at.plan, past, obs, step)
        cut = windows_of(at, step)
        for name in ("return_to_go", "obs", "step", "there"):
            kept, there = getattr(past.windows, name)[0, 0], cut.there[0, 0]
            assert torch.allclose(kept[there].float(), getattr(cut, name)[0, 0][there].float(), atol=1e-5), name
        action = at.data.actions[step].view(1, 1, -1)
        past = dt.earn(dt.remember(at.plan, past, action.squeeze(-1) if kind != "dt" else action), torch.tensor([[data.rewards[step]]]))


def test_a_policy_that_needs_its_episode_says_so_where_there_is_none(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config("dt", run={"max_env_steps": 100})])[0]
    policy = Policy(run.config, run.checkpoint("@last").path)
    with pytest.raises(UsageError, match=r"algo\.context"):
        policy.act([0.0, 0.0, 0.0])
    with pytest.raises(UsageError, match="acts by the steps of its episode"):
        policy.actor(2, deterministic=True, seed=0)
    env = envs.make(run.config.env, [0], 2, evaluation=True)
    assert evaluation.sees_episodes(policy._plan)
    assert policy.evaluate(2).returns.shape == (1, 2)
    env.close()


def test_heads_that_cannot_share_a_token_are_refused() -> None:
    with pytest.raises(ConfigError, match="heads can share"):
        make_config("dt", algo={"name": "dt", "width": 10, "heads": 4})


class Repeat(gymnasium.Env[Any, Any]):
    """Ten steps, each paid for how near the action is to a number that is shown."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left, self.shown = 10, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = 1.0 - abs(float(action[0]) - float(self.shown[0]))
        self.left, self.shown = self.left - 1, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.shown, reward, False, self.left == 0, {}


def half_good_half_bad(place: Path) -> None:
    """40 episodes repeat the number, 40 its opposite."""
    draw, made = np.random.default_rng(0), []
    for sign in [1.0] * 40 + [-1.0] * 40:
        seen = draw.uniform(-1, 1, (11, 2)).astype(np.float32)
        acted = np.clip(sign * seen[:-1, 0] + 0.1 * draw.normal(size=10), -1, 1).astype(np.float32)
        made.append(Episode(seen, acted[:, None], (1.0 - abs(acted - seen[:-1, 0])).astype(np.float32), False, True))
    spaces = Space("box", (2,), low=(-1.0,) * 2, high=(1.0,) * 2), Space("box", (1,), low=(-1.0,), high=(1.0,))
    folder.write(place, iter(made), *spaces, env_id=f"{Path(__file__).resolve()}:Repeat", source="made up")


def test_the_more_it_is_asked_for_the_more_it_earns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_good_half_bad(tmp_path / "data")
    settings = ("algo.width=16", "algo.layers=1", "algo.context=2", "algo.batch_size=64", "algo.learning_rate=1e-2", "net.hidden=[]")
    settings += ("run.max_env_steps=400", "run.eval_every_env_steps=400", "run.eval_episodes=4", f"data.path={tmp_path / 'data'}")
    run = train(tmp_path, [load(f"{Path(__file__).resolve()}:Repeat:dt", settings).config])[0]
    policy = Policy(run.config, run.checkpoint("@last").path)
    earned = [float(policy.evaluate(20, target_return=wanted).returns.mean()) for wanted in (2.0, 4.0, 6.0, 8.0, 9.5)]
    assert earned == sorted(earned)
    assert earned[0] < 6.0 < 8.0 < earned[-1]
    assert policy.target_return == pytest.approx(float(policy.evaluate(1).returns.max()), abs=2.0), "what was asked for is not kept"
    monkeypatch.chdir(tmp_path)
    wanted = [f"--target-return={asked:g}" for asked in (2, 6, 9.5)]
    result = CliRunner().invoke(app, ["evaluate", run.id, "-n", "5", *wanted, "--runs-dir", str(run.path.parent)])
    assert result.exit_code == 0, result.output
    assert "asked for 2, it earns" in result.output
    assert "rank correlation of 1" in result.output


def test_a_policy_that_is_asked_for_no_return_says_so(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config("bc", run={"max_env_steps": 100})])[0]
    policy = Policy(run.config, run.checkpoint("@last").path)
    assert policy.target_return is None
    with pytest.raises(UsageError, match="only dt takes one"):
        policy.evaluate(2, target_return=5.0)
