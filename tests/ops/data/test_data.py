"""Collecting, checking and converting, as somebody at a terminal does."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from typer.testing import CliRunner

from rlclinic.datasets import read
from rlclinic.errors import ConfigError, EnvironmentFailed, NotFound, UsageError
from rlclinic.ops.data.check import check
from rlclinic.ops.data.collect import collect
from rlclinic.ops.data.convert import convert
from rlclinic.ops.data.requests import CheckRequest, CollectRequest, ConvertRequest
from rlclinic.serve.cli.app import app


def test_random_data_has_whole_episodes_of_the_environment(tmp_path: Path) -> None:
    collect(CollectRequest(selector="Pendulum-v1", policy="random", episodes=3, out=tmp_path / "d", seed=5))
    data = read(tmp_path / "d")
    assert data.lengths.tolist() == [200] * 3
    assert data.truncated.all()
    assert not data.terminated.any()
    assert data.action_space.low == (-2.0,)
    assert np.unique(data.actions).size > 500


def test_the_same_seed_records_the_same_data_and_another_one_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        collect(CollectRequest(selector="CartPole-v1", policy="random", episodes=5, out=tmp_path / name, seed=seed))
    first, second, third = (read(tmp_path / name) for name in "abc")
    np.testing.assert_array_equal(first.observations, second.observations)
    assert first.observations[0].tolist() != third.observations[0].tolist()


def test_a_recorded_transition_is_one_of_the_environment(tmp_path: Path) -> None:
    import gymnasium

    collect(CollectRequest(selector="CartPole-v1", policy="random", episodes=20, out=tmp_path / "d"))
    data = read(tmp_path / "d")
    rows = data.transitions(np.arange(len(data)))
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    for row in range(0, len(data), 7):
        env.state, env.steps_beyond_terminated = rows.observations[row].astype(np.float64), None
        after, reward, ended, _, _ = env.step(int(rows.actions[row]))
        np.testing.assert_allclose(after, rows.next_observations[row], atol=1e-5)
        assert (reward, ended) == (rows.rewards[row], bool(rows.terminated[row]))


def test_a_function_of_the_user_acts_and_noise_is_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def act(obs):\n    return [0.5]\n")
    collect(CollectRequest(selector="Pendulum-v1", policy="mine.py:act", episodes=4, noise=0.25, out=Path("d")))
    actions = read("d").actions
    assert abs(float((actions == 0.5).mean()) - 0.75) < 0.05
    Path("wrong.py").write_text("def act(obs):\n    return [0.5, 1]\n")
    with pytest.raises(ConfigError, match="returned an action of shape"):
        collect(CollectRequest(selector="Pendulum-v1", policy="wrong.py:act", episodes=1, out=Path("e")))
    with pytest.raises(NotFound, match="no function"):
        collect(CollectRequest(selector="Pendulum-v1", policy="mine.py:acts", episodes=1, out=Path("e")))
    assert not Path("e").exists()


def test_data_is_checked_and_converted(tmp_path: Path) -> None:
    collect(CollectRequest(selector="CartPole-v1", policy="random", episodes=8, out=tmp_path / "d"))
    report = check(CheckRequest(data=str(tmp_path / "d"), random_return=10.0, good_return=500.0))
    assert (report.env, report.episodes, report.actions) == ("CartPole-v1", 8, "2 choices")
    assert report.trajectory_quality is not None
    convert(ConvertRequest(data=str(tmp_path / "d"), to="minari", out=tmp_path / "m"))
    convert(ConvertRequest(data=str(tmp_path / "m"), out=tmp_path / "again"))
    np.testing.assert_array_equal(read(tmp_path / "again").observations, read(tmp_path / "d").observations)
    assert read(tmp_path / "m").env_id == "CartPole-v1"
    about = json.loads((tmp_path / "m" / "data" / "metadata.json").read_text())
    assert gymnasium.envs.registration.EnvSpec.from_json(about["env_spec"]).max_episode_steps == 500
    for to, ending in (("d4rl", ".hdf5"), ("npz", ".npz"), ("csv", ".csv")):
        written = convert(ConvertRequest.model_validate({"data": str(tmp_path / "d"), "to": to, "out": tmp_path / to}))
        assert written.data == str(tmp_path / f"{to}{ending}")
        np.testing.assert_array_equal(read(written.data).observations, read(tmp_path / "d").observations)
    with pytest.raises(UsageError, match="Give both"):
        check(CheckRequest(data=str(tmp_path / "d"), random_return=1.0))


def test_a_check_says_what_the_data_is_good_for_and_what_to_collect_instead(tmp_path: Path) -> None:
    collect(CollectRequest(selector="CartPole-v1", policy="random", episodes=3, out=tmp_path / "few"))
    collect(CollectRequest(selector="CartPole-v1", policy="random", episodes=60, out=tmp_path / "many"))
    few = check(CheckRequest(data=str(tmp_path / "few"), beside=str(tmp_path / "many")))
    assert not any(each.suits for each in few.suits)
    assert few.collect
    assert few.coverage_ratio == pytest.approx(1.0, abs=0.3)
    text = CliRunner().invoke(app, ["data", "check", str(tmp_path / "few")]).stdout
    assert "not for     bc, " in text
    assert "collect     " in text
    assert any(each.suits for each in check(CheckRequest(data=str(tmp_path / "many"))).suits)
    collect(CollectRequest(selector="Pendulum-v1", policy="random", episodes=2, out=tmp_path / "other"))
    with pytest.raises(UsageError, match="Data of two tasks"):
        check(CheckRequest(data=str(tmp_path / "few"), beside=str(tmp_path / "other")))


def test_damaged_data_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    collect(CollectRequest(selector="CartPole-v1", policy="random", episodes=8, out=tmp_path / "d"))
    np.save(tmp_path / "d" / "rewards.npy", np.load(tmp_path / "d" / "rewards.npy")[:-3])
    answer = CliRunner().invoke(app, ["train", "CartPole-v1:iql", "--data", str(tmp_path / "d"), "--runs-dir", str(tmp_path / "runs")])
    assert answer.exit_code == 2
    assert not (tmp_path / "runs").exists()


def test_damaged_data_ends_with_its_own_exit_code(tmp_path: Path) -> None:
    collect(CollectRequest(selector="CartPole-v1", policy="random", episodes=8, out=tmp_path / "d"))
    assert CliRunner().invoke(app, ["data", "check", str(tmp_path / "d")]).exit_code == 0
    rewards = np.load(tmp_path / "d" / "rewards.npy")
    rewards[2] = np.inf
    np.save(tmp_path / "d" / "rewards.npy", rewards)
    answer = CliRunner().invoke(app, ["data", "check", str(tmp_path / "d")])
    assert answer.exit_code == 5
    assert "DAMAGED" in answer.stdout


def test_a_policy_without_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs an environment"):
        collect(CollectRequest(policy="random", out=tmp_path / "d"))


def test_an_environment_in_which_another_one_acts_takes_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks could not be switched on: an environment that refuses forbidden actions could not be recorded at random."""
    monkeypatch.chdir(tmp_path)
    Path("masked.py").write_text(
        "import gymnasium as gym, numpy as np\n"
        "class Masked(gym.Env):\n"
        "    observation_space, action_space = gym.spaces.Box(0, 1, (1,), np.float32), gym.spaces.Discrete(3)\n"
        "    def answer(self):\n"
        "        return np.zeros(1, np.float32), {'action_mask': np.array([0, 1, 0], np.int8)}\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        self.t = 0\n"
        "        return self.answer()\n"
        "    def step(self, action):\n"
        "        if action != 1:\n"
        "            raise ValueError('forbidden')\n"
        "        self.t += 1\n"
        "        obs, info = self.answer()\n"
        "        return obs, 1.0, False, self.t == 5, info\n"
    )
    masks = ["env.action_mask=true"]
    collect(CollectRequest(selector="masked.py:Masked", policy="random", episodes=4, out=Path("d"), changes=masks))
    assert set(read("d").actions.ravel().tolist()) == {1}
    with pytest.raises(EnvironmentFailed, match="forbidden"):
        collect(CollectRequest(selector="masked.py:Masked", policy="random", episodes=4, out=Path("e")))
    with pytest.raises(UsageError, match="as it was trained in"):
        collect(CollectRequest(episodes=1, out=Path("f"), changes=masks))
