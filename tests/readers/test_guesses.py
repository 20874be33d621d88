import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import guesses
from rlclinic.readers.guesses import Mapping, guess, parse
from rlclinic.readers.metric_aliases import Tag


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
    found = guesses.canonical(name)
    assert found is not None
    assert (found.canonical, found.tag) == (canonical, name)


@pytest.mark.parametrize("name", ["val_loss", "foo", "", "eval/policy_loss", "weights/layer1"])
def test_names_that_say_nothing_are_not_guessed(name: str) -> None:
    assert guesses.canonical(name) is None


def test_a_mean_in_the_log_is_preferred_to_single_episodes() -> None:
    found = guess(["global_step", "episode_reward", "mean_reward"])
    assert [tag.tag for tag in found.tags] == ["mean_reward"]


def test_the_axis_is_the_column_that_counts_env_steps() -> None:
    assert guess(["epoch", "step", "total_timesteps", "reward"]).step == "total_timesteps"
    assert guess(["iteration", "TotalEnvInteracts"]).step == "TotalEnvInteracts"
    found = guess(["iteration", "mean_reward"])
    assert (found.step, found.rows) == (None, "iteration")


def test_rows_of_single_episodes_are_told_by_their_count_and_lengths() -> None:
    found = guess(["episode", "reward", "length", "loss"])
    assert (found.step, found.lengths) == (None, "length")
    assert found.episodic == {"reward", "length"}


def test_a_reward_at_a_step_is_not_a_single_episode() -> None:
    assert guess(["step", "reward"]).episodic == frozenset()


def test_a_mapping_carries_sign_scale_aggregation_and_axis() -> None:
    assert parse(["entropy=-ent_loss", "train/loss/value=vf*2", "return=r:episodes", "step=iteration*2048"]) == Mapping(
        (
            Tag("train/metrics/entropy", "ent_loss", -1.0),
            Tag("train/loss/value", "vf", 2.0),
            Tag("train/roll/ep_rew_mean", "r", episodic=True),
        ),
        "iteration",
        2_048.0,
    )


@pytest.mark.parametrize("entry", ["", "entropy", "=column", "entropy="])
def test_a_mapping_that_is_none_shows_how_to_write_one(entry: str) -> None:
    with pytest.raises(UsageError, match="METRIC=COLUMN"):
        parse([entry])


def test_an_unknown_metric_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match="train/loss/policy"):
        parse(["train/loss/polcy=x"])


def test_the_end_of_a_metrics_name_is_enough_where_it_is_unique() -> None:
    assert guesses.named("ratio_first_dev") == "train/sentinel/ratio_first_dev"


def test_a_column_that_the_log_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(UsageError, match="reward_mean"):
        guesses.check(parse(["return=rewardmean"]), ["step", "reward_mean"])
