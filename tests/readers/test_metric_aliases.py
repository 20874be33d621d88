import pytest

from rlclinic import metrics
from rlclinic.readers import metric_aliases
from rlclinic.readers.metric_aliases import CLEANRL, FRAMEWORKS, SB3, Tag


@pytest.mark.parametrize("framework", [*FRAMEWORKS, metric_aliases.BASELINES], ids=lambda framework: framework.name)
def test_every_line_of_a_table_names_a_metric_of_the_dictionary(framework: metric_aliases.Framework) -> None:
    assert [tag.canonical for tag in framework.tags if metrics.find(tag.canonical) is None] == []


def test_a_table_with_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="train/nonsense is no metric"):
        metric_aliases.parse_table("train/nonsense | a")


def test_a_line_says_sign_scale_estimator_and_aggregation() -> None:
    (tag,) = metric_aliases.parse_table("train/loss/value | v | x -2 | / algo.vf_coef | episodes | last minibatch | only ppo,trpo")
    assert tag == Tag("train/loss/value", "v", -2.0, "algo.vf_coef", "last minibatch", True, frozenset({"ppo", "trpo"}))


def test_a_weighted_loss_is_divided_by_its_weight_and_left_out_where_that_is_unknown() -> None:
    tag = Tag("train/loss/value", "v", 2.0, divide_by="algo.vf_coef")
    assert tag.scale({"algo.vf_coef": 0.5}) == 4.0
    assert tag.scale({}) is None
    assert tag.scale({"algo.vf_coef": 0.0}) is None


def test_sb3_entropy_loss_has_minus_the_sign_of_entropy() -> None:
    factors = {tag.canonical: tag.factor for tag in SB3.tags if tag.tag == "train/entropy_loss"}
    assert factors == {"train/loss/entropy": 1.0, "train/metrics/entropy": -1.0}


def test_cleanrl_value_loss_is_half_the_squared_error() -> None:
    assert {tag.factor for tag in CLEANRL.tags if tag.tag == "losses/value_loss"} == {2.0}


def test_one_tag_means_different_things_for_different_algorithms() -> None:
    meant = {algo: [tag.canonical for tag in SB3.table(algo) if tag.tag == "train/loss"] for algo in ("ppo", "dqn", "sac")}
    assert meant == {"ppo": ["train/loss/total"], "dqn": ["train/loss/td"], "sac": []}


def test_our_own_names_are_known_in_every_log() -> None:
    assert any(tag.tag == "train/sentinel/adv_std" for tag in SB3.table("ppo"))


def test_a_star_stands_for_a_part_of_a_tag() -> None:
    tag = Tag("train/metrics/entropy", "info/learner/*/learner_stats/entropy")
    assert metric_aliases.find_matching(tag, ["info/learner/p0/learner_stats/entropy", "other"]) == [
        "info/learner/p0/learner_stats/entropy"
    ]


@pytest.mark.parametrize(
    ("names", "framework"),
    [
        (["rollout/ep_rew_mean", "train/approx_kl", "time/fps"], "Stable-Baselines3"),
        (["charts/episodic_return", "losses/approx_kl", "charts/SPS"], "CleanRL"),
        (["environment/episode_return", "losses/approx_kl", "performance/SPS"], "PufferLib"),
        (["Reward / Total reward (mean)", "Loss / Policy loss"], "skrl"),
        (["Train/mean_reward", "Perf/total_fps", "Loss/surrogate"], "rsl_rl"),
        (["training/returns_stat/mean", "update/vf_loss/mean"], "Tianshou"),
        (["env_runners/episode_return_mean", "learners/default_policy/vf_loss"], "RLlib"),
        (["reward/reward", "len/len", "train/kl_divergence"], "Sample Factory"),
    ],
)
def test_a_framework_is_recognized_by_its_tags(names: list[str], framework: str) -> None:
    found = metric_aliases.recognize(names)
    assert found is not None
    assert found.name == framework


def test_tags_of_nobody_are_recognized_as_nobodys() -> None:
    assert metric_aliases.recognize(["my/return", "my/loss"]) is None
    assert metric_aliases.recognize(["time/fps"]) is None
