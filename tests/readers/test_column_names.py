import pytest

from rlclinic.readers import column_names
from rlclinic.readers.column_names import guess_columns


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("AverageEpRet", "train/roll/ep_rew_mean"),
        ("train/mean_reward", "train/roll/ep_rew_mean"),
        ("episode_reward_mean", "train/roll/ep_rew_mean"),
        ("AverageTestEpRet", "val/roll/ep_rew_mean"),
        ("eval/return_mean", "val/roll/ep_rew_mean"),
        ("test_score", "val/roll/ep_rew_mean"),
        ("EpLen", "train/roll/ep_len_mean"),
        ("LossPi", "train/loss/policy"),
        ("losses/v_loss", "train/loss/value"),
        ("learner/entropy", "train/metrics/entropy"),
        ("approx_kl", "train/metrics/kl_divergence"),
        ("ClipFrac", "train/metrics/clip_fraction"),
        ("explained_var", "train/metrics/explained_variance"),
        ("grad_norm", "train/metrics/grad_norm/all"),
        ("Learning Rate", "train/hp/learning_rate"),
        ("SPS", "time/fps"),
        ("train/sentinel/adv_std", "train/sentinel/adv_std"),
    ],
)
def test_usual_names_are_known(name: str, canonical: str) -> None:
    found = column_names.find_metric(name)
    assert found is not None
    assert (found.canonical, found.tag) == (canonical, name)


@pytest.mark.parametrize("name", ["val_loss", "foo", "", "eval/policy_loss", "weights/layer1"])
def test_names_that_say_nothing_are_not_guessed(name: str) -> None:
    assert column_names.find_metric(name) is None


def test_a_mean_in_the_log_is_preferred_to_single_episodes() -> None:
    found = guess_columns(["global_step", "episode_reward", "mean_reward"])
    assert [tag.tag for tag in found.tags] == ["mean_reward"]


def test_the_axis_is_the_column_that_counts_env_steps() -> None:
    assert guess_columns(["epoch", "step", "total_timesteps", "reward"]).step == "total_timesteps"
    assert guess_columns(["iteration", "TotalEnvInteracts"]).step == "TotalEnvInteracts"
    found = guess_columns(["iteration", "mean_reward"])
    assert (found.step, found.rows) == (None, "iteration")


def test_rows_of_single_episodes_are_told_by_their_count_and_lengths() -> None:
    found = guess_columns(["episode", "reward", "length", "loss"])
    assert (found.step, found.lengths) == (None, "length")
    assert found.episodic == {"reward", "length"}


def test_a_reward_at_a_step_is_not_a_single_episode() -> None:
    assert guess_columns(["step", "reward"]).episodic == frozenset()
