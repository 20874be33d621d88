"""Runs that other frameworks logged, with a fault planted and without: what is read, and what diagnosis says."""

import shutil
from pathlib import Path

import pytest

from rlclinic import readers
from rlclinic.diagnosis import engine
from rlclinic.errors import UsageError
from rlclinic.runs.history import History

RETURN, EVALUATION = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean"
FAULTS = [
    ("wandb", "rate", "learning-rate-too-high"),
    ("wandb", "discount", "discount-too-low"),
    ("mlflow/mlflow.db", "rate", "learning-rate-too-high"),
    ("d3rlpy", "dqn_rate", "learning-rate-too-high"),
    ("tianshou/CartPole-v1/dqn", "rate", "learning-rate-too-high"),
    ("tianshou/CartPole-v1/ppo", "rate", "learning-rate-too-high"),
    ("rllib", "dqn_rate", "learning-rate-too-high"),
    ("rllib", "sac_discount", "discount-too-low"),
    ("skrl", "ppo_rate", "learning-rate-too-high"),
    ("torchrl/ppo_rate", "ppo_rate", "learning-rate-too-high"),
    ("torchrl/ppo_discount", "ppo_discount", "discount-too-low"),
    ("rsl_rl", "rate", "learning-rate-too-high"),
    ("sample_factory", "rate", "learning-rate-too-high"),
    ("imitation/gail_rate/raw/gen", "gen", "learning-rate-too-high"),
    # Faults of the environment, seen by the hooks of rlclinic.sentinels.
    ("tianshou/CartPole-v1/dqn", "ignored", "actions-without-effect"),
    ("torchrl/ppo_ignored", "ppo_ignored", "actions-without-effect"),
    ("skrl", "ppo_sign", "reward-sign"),
]
SOUND = [
    ("wandb", "healthy"),
    ("wandb", "xgk9cacr"),
    ("mlflow/mlflow.db", "healthy"),
    ("mlflow/mlruns", "healthy"),
    ("d3rlpy", "dqn_healthy"),
    ("d3rlpy", "sac_offline"),
    ("tianshou/CartPole-v1/dqn", "healthy"),
    ("skrl", "ppo_healthy"),
    ("skrl", "dqn_healthy"),
    ("torchrl/ppo_healthy", "ppo_healthy"),
    ("rsl_rl", "healthy"),
    ("sample_factory/healthy", "healthy"),
    ("rllib", "dqn_healthy"),
    ("tianshou/CartPole-v1/ppo", "healthy"),
    ("imitation/bc", "bc"),
    ("imitation/gail/raw/gen", "gen"),
]
CALM = ("nothing wrong", "cannot tell", "symptom")


def find(samples: Path, path: str, name: str) -> History:
    return {history.id: history for history in readers.read(samples / path)}[name]


@pytest.mark.parametrize(("path", "name", "cause"), FAULTS)
def test_a_planted_fault_is_named_first(samples: Path, path: str, name: str, cause: str) -> None:
    assert engine.diagnose([find(samples, path, name)]).causes[0].id == cause


@pytest.mark.parametrize(("path", "name"), SOUND)
def test_of_a_sound_run_nothing_is_said_but_that_it_was_short(samples: Path, path: str, name: str) -> None:
    first = engine.diagnose([find(samples, path, name)]).causes[0]
    assert first.kind in CALM or first.id == "budget-too-small"


def test_d3rlpy_tells_returns_of_training_and_of_evaluation_apart(samples: Path) -> None:
    found = find(samples, "d3rlpy", "dqn_healthy")
    assert (found.source, found.algo, found.env_steps) == ("d3rlpy", "dqn", 4_000)
    assert (found[EVALUATION].last, found[EVALUATION].name, found[RETURN].name) == (290.8, "evaluation", "rollout_return")
    assert found["train/loss/td"].name == "loss"
    assert (found.settings["algo.learning_rate"], found.settings["algo.target_update_interval"]) == (1e-3, 200)


def test_d3rlpy_on_recorded_data_took_no_env_steps(samples: Path) -> None:
    found = find(samples, "d3rlpy", "sac_offline")
    assert (found.algo, found.env_steps) == ("sac", None)
    assert {EVALUATION, "train/loss/actor", "train/loss/critic", "train/loss/alpha", "train/hp/alpha"} <= set(found.series)
    assert any("recorded data" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "algo", "settings"),
    [
        ("iql", "iql", {"algo.beta": 0.001, "algo.weight_cap": 100.0, "algo.expectile": 0.7, "algo.value_lr": 3e-4}),
        ("cql", "cql", {"algo.cql_alpha": 100.0, "algo.cql_actions": 4, "algo.cql_lagrange": True, "algo.learning_rate": 1e-4}),
        ("td3_bc", "td3_bc", {"algo.bc_alpha": 1e5, "env.normalize_obs": False}),
        ("awac", "awac", {"algo.awac_lambda": 1.0}),
        ("bc", "bc", {"algo.learning_rate": 1e-3}),
    ],
)
def test_d3rlpys_algorithms_for_recorded_data_are_known_by_their_own_settings(
    samples: Path, name: str, algo: str, settings: dict[str, float]
) -> None:
    found = find(samples, "d3rlpy", f"{name}_offline")
    assert (found.source, found.algo, found.env_steps) == ("d3rlpy", algo, None)
    assert {key: found.settings[key] for key in settings} == settings
    assert "algo.gae_lambda" not in found.settings
    assert {EVALUATION, "train/loss/actor"} <= set(found.series)
    assert engine.diagnose([found]).causes[0].kind in CALM


def test_tianshous_losses_are_on_env_steps_as_its_returns_are(samples: Path) -> None:
    found = find(samples, "tianshou/CartPole-v1/ppo", "healthy")
    assert (found.source, found.algo, found.env_id, found.seed, found.state) == ("tianshou", "ppo", "CartPole-v1", 1, "finished")
    assert found.env_steps == found.max_env_steps == 15_360
    assert found["train/loss/value"].steps[-1] == found[RETURN].steps[-1] == 15_360
    assert {RETURN, EVALUATION, "train/loss/policy", "train/metrics/entropy"} <= set(found.series)
    assert {key: found.settings[key] for key in ("algo.n_steps", "algo.n_epochs", "env.n_envs")} == {
        "algo.n_steps": 128,
        "algo.n_epochs": 8,
        "env.n_envs": 8,
    }


def test_lengths_that_tianshou_counts_from_a_collections_beginning_are_left_out(samples: Path) -> None:
    found = find(samples, "tianshou/CartPole-v1/ppo", "healthy")
    assert "train/roll/ep_len_mean" not in found
    assert "val/roll/ep_len_mean" in found
    assert "train/roll/ep_len_mean" in find(samples, "tianshou/CartPole-v1/dqn", "healthy")


def test_tianshous_short_collections_are_episodes_and_its_hook_wrote_sentinels(samples: Path) -> None:
    found = find(samples, "tianshou/CartPole-v1/dqn", "healthy")
    assert found[RETURN].name == "training/returns_stat/mean"
    assert "train/roll/ep_rew_best" in found
    assert found["train/loss/td"].steps[-1] > 2_500
    assert {"train/sentinel/reward_mean", "train/sentinel/action_top_share", "train/sentinel/update_ratio_max"} <= set(found.series)


def test_rllibs_learners_with_a_replay_have_their_losses_and_settings(samples: Path) -> None:
    found = find(samples, "rllib", "dqn_healthy")
    assert (found.source, found.algo, found.env_id, found.seed, found.env_steps) == ("rllib", "dqn", "CartPole-v1", 1, 1_200)
    assert {RETURN, "train/loss/td", "train/metrics/q_mean", "train/metrics/grad_norm/all", "train/hp/learning_rate"} <= set(found.series)
    wanted = {"algo.batch_size": 32, "algo.buffer_size": 10_000, "algo.learning_starts": 300, "algo.exploration_final_eps": 0.05}
    assert {key: found.settings[key] for key in wanted} == wanted
    found = find(samples, "rllib", "sac_discount")
    assert (found.algo, found.env_id, found.settings["algo.gamma"], found.settings["algo.value_lr"]) == ("sac", "Pendulum-v1", 0.2, 3e-4)
    assert {"train/loss/actor", "train/loss/critic", "train/loss/alpha", "train/hp/alpha", "train/metrics/q_mean"} <= set(found.series)


def test_skrls_steps_of_all_envs_become_env_steps_by_the_settings_beside_it(samples: Path) -> None:
    found = find(samples, "skrl", "ppo_healthy")
    assert (found.source, found.algo, found.env_steps, found.max_env_steps) == ("skrl", "ppo", 16_384, 16_384)
    assert found["train/metrics/entropy"].values[0] == pytest.approx(0.69, abs=0.01)
    wanted = {
        "algo.n_steps": 64,
        "algo.batch_size": 256,
        "algo.ent_coef": 0.01,
        "algo.vf_coef": 0.5,
        "algo.clip_range": 0.2,
        "algo.gamma": 0.98,
    }
    assert {key: found.settings[key] for key in wanted} == wanted


def test_sample_factorys_hidden_events_are_read_with_the_settings_two_folders_above(samples: Path) -> None:
    found = find(samples, "sample_factory", "healthy")
    assert (found.source, found.algo, found.env_id, found.env_steps, found.max_env_steps) == (
        "sample_factory",
        "ppo",
        "CartPole-v1",
        20_480,
        20_000,
    )
    wanted = {"env.n_envs": 8, "algo.n_steps": 128, "algo.batch_size": 256, "algo.n_epochs": 4, "algo.clip_range": 0.1, "algo.gamma": 0.98}
    assert {key: found.settings[key] for key in wanted} == wanted
    assert {RETURN, "train/roll/ep_len_mean", "train/loss/value", "train/metrics/kl_divergence", "train/metrics/clip_fraction"} <= set(
        found.series
    )
    alone = find(samples, "sample_factory/healthy/.summary/0", "healthy")
    assert (alone.algo, alone.settings) == (found.algo, found.settings)


def test_with_v_trace_sample_factorys_appo_is_not_called_ppo(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "sample_factory" / "healthy", tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace('"with_vtrace": false', '"with_vtrace": true'))
    assert find(tmp_path, "run", "run").algo == "appo"


def test_a_deviation_that_a_discrete_policy_of_skrl_does_not_have_is_no_broken_number(samples: Path) -> None:
    assert "train/metrics/action_std" not in find(samples, "skrl", "ppo_healthy")


def test_what_skrl_watched_is_read_with_the_settings_that_it_left(samples: Path) -> None:
    found = find(samples, "skrl", "dqn_healthy")
    assert (found.algo, found.env_id, found.env_steps, found.settings["algo.tau"]) == ("dqn", "CartPole-v1", 6_400, 0.01)
    assert {"train/loss/td", "train/hp/epsilon", "train/sentinel/terminated", "train/sentinel/reward_mean"} <= set(found.series)


@pytest.mark.parametrize("name", ["ppo_healthy", "ppo_discount"])
def test_torchrls_files_and_events_say_the_same_things(samples: Path, name: str) -> None:
    found = find(samples, f"torchrl/{name}", name)
    assert (found.algo, found.env_id, found.env_steps, found.settings["algo.n_steps"]) == ("ppo", "CartPole-v1", 6_144, 512)
    named = {"train/loss/policy", "train/loss/value", "train/metrics/entropy", "train/metrics/clip_fraction", "train/metrics/grad_norm/all"}
    assert named | {RETURN, "train/metrics/kl_signed", "train/metrics/explained_variance"} <= set(found.series)
    # Its estimate of the KL may be negative: it is not the one that may not.
    assert "train/metrics/kl_divergence" not in found


def test_rsl_rls_iterations_become_env_steps_and_seconds_are_no_axis(samples: Path) -> None:
    found = find(samples, "rsl_rl", "healthy")
    assert (found.source, found.algo, found.seed, found.env_steps, found.max_env_steps) == ("rsl_rl", "ppo", 1, 19_456, 20_480)
    wanted = {"env.n_envs": 16, "algo.n_steps": 64, "algo.batch_size": 256, "algo.n_epochs": 5, "algo.gae_lambda": 0.95}
    assert {key: found.settings[key] for key in wanted} == wanted
    assert {RETURN, "train/loss/policy", "train/loss/value", "train/metrics/entropy", "train/metrics/action_std"} <= set(found.series)


def test_a_rate_that_the_kl_moves_is_the_logs_own(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "rsl_rl", tmp_path / "logs")
    (file,) = (tmp_path / "logs").glob("**/healthy/params/agent.yaml")
    file.write_text(file.read_text().replace("schedule: fixed", "schedule: adaptive"))
    found = {history.id: history for history in readers.read(tmp_path / "logs")}
    assert any("algo.learning_rate: as the log has" in note for note in found["healthy"].notes)


def test_what_imitation_trains_is_a_model_of_sb3_with_a_discriminator_and_a_clone_has_its_returns(samples: Path) -> None:
    found = find(samples, "imitation/gail/raw/gen", "gen")
    assert (found.source, found.algo, found.env_steps) == ("sb3", "ppo", 4_096)
    assert {RETURN, "train/loss/policy", "train/loss/value", "train/metrics/kl_divergence", "train/metrics/entropy"} <= set(found.series)
    against = find(samples, "imitation/gail", "gail")
    assert against.algo == "gail"
    assert (against["train/adversary/expert_accuracy"].values[0], against["train/adversary/policy_accuracy"].values[0]) == (0.0, 1.0)
    cloned = find(samples, "imitation/bc", "bc")
    assert (cloned.source, cloned.algo) == ("imitation", "bc")
    assert {RETURN, "train/loss/actor", "train/metrics/entropy"} <= set(cloned.series)


def test_aims_store_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".aim" / "meta").mkdir(parents=True)
    (tmp_path / ".aim" / "VERSION").write_bytes(b"1")
    for path in (tmp_path, tmp_path / ".aim"):
        with pytest.raises(UsageError, match="pip install aim"):
            readers.read(path)
