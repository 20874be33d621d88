"""The lines that a foreign script needs."""

from rlclinic.diagnosis import logging_snippets
from rlclinic.runs.history import History, make_series


def test_a_script_with_stable_baselines3_needs_one_callback_for_everything() -> None:
    lines = logging_snippets.lines(
        ["train/sentinel/adv_std", "config:algo.gamma", "train/metrics/grad_norm/all", "val/roll/ep_rew_mean"], "sb3"
    )
    assert lines[:2] == logging_snippets.CALLBACK
    assert len(lines) == 3
    assert lines[2].startswith("EvalCallback(")


def test_a_loop_of_cleanrls_kind_gets_the_recipe_in_the_order_of_use() -> None:
    shown = logging_snippets.most_useful(
        [logging_snippets.lines(["train/sentinel/adv_std"], "cleanrl"), logging_snippets.lines(["train/roll/ep_len_mean"], "cleanrl")]
    )
    assert [line.partition("(")[0] for line in shown] == [
        "sentinels = Sentinels",
        "sentinels.rollout",
        "sentinels.minibatch",
        "sentinels.row",
        "log",
    ]


def test_other_logs_get_a_line_for_each_column() -> None:
    assert logging_snippets.lines(["train/sentinel/adv_std"], "csv") == (
        'log("train/sentinel/adv_std", advantages.std().item())  # before scaling',
    )
    assert logging_snippets.lines(["config:algo.gamma"], "csv")[0].startswith("# put algo.gamma")
    assert logging_snippets.lines(["threshold"], "sb3") == ("rlclinic diagnose … --threshold N",)


def test_the_lines_call_what_there_is() -> None:
    """The recipe's names are those of the package."""
    import inspect

    from rlclinic.sentinels import torch_loop

    source = " ".join(logging_snippets.lines(["train/sentinel/adv_std"], "cleanrl"))
    assert all(f"sentinels.{name}(" in source for name in ("rollout", "minibatch", "row"))
    assert list(inspect.signature(torch_loop.Sentinels.minibatch).parameters) == ["self", "ratio", "advantages"]
    assert {"obs", "actions", "advantages", "returns", "values", "rewards"} == set(torch_loop._NEEDED)


def test_a_script_that_has_the_callback_already_is_not_told_to_add_it() -> None:
    missing = ["train/sentinel/adv_std", "val/roll/ep_rew_mean"]
    watched = logging_snippets.lines(missing, "sb3", watched=True)
    assert len(watched) == 1
    assert watched[0].startswith("EvalCallback(")
    assert logging_snippets.recipe("sb3", [watched]) == [watched[0]]
    unwatched = logging_snippets.lines(missing, "sb3", watched=False)
    assert any("SentinelCallback" in line for line in logging_snippets.recipe("sb3", [unwatched]))
    assert logging_snippets.lines(["config:algo.gamma"], "sb3", watched=True)[0].startswith("# keep the callback's sentinels.json")


def test_who_has_no_loop_is_given_no_line_for_one() -> None:
    """A DQN of Stable-Baselines3 with the callback was told to log `ratio`, which it does not have."""
    missing = ["train/metrics/kl_divergence", "time/learn", "train/sentinel/random_return", "val/roll/ep_rew_mean"]
    assert [line.partition("(")[0] for line in logging_snippets.lines(missing, "sb3", watched=True)] == ["EvalCallback"]
    assert any(line.startswith("log(") for line in logging_snippets.lines(missing, "cleanrl", watched=True))


def test_the_callback_is_not_advised_for_what_it_does_not_log() -> None:
    """No check lacks a sentinel: an evaluation is what is missing."""
    assert logging_snippets.recipe("sb3", [logging_snippets.lines(["val/roll/ep_rew_mean"], "sb3")])[0].startswith("EvalCallback(")


def test_what_the_callback_never_logs_does_not_ask_for_the_callback() -> None:
    """sentinels.json lies beside the log: what it leaves out is not to be had by adding the callback again, nor by keeping the file."""
    rows = {name: make_series([1.0, 2.0], [0.0, 0.0], name) for name in ("rollout/ep_rew_mean", "train/sentinel/obs_abs_max")}
    plain = History("log", "sb3", series={"train/roll/ep_rew_mean": rows["rollout/ep_rew_mean"]})
    watched = History("log", "sb3", series=rows, settings={"algo.gamma": 0.99})
    missing = ["train/sentinel/random_return", "config:net.log_std_init", "val/roll/ep_rew_mean"]
    pasted = logging_snippets.recipe("sb3", [logging_snippets.lines_for([name], [watched]) for name in missing])
    assert not any("SentinelCallback" in line or "sentinels.json" in line for line in pasted)
    assert any(line.startswith("EvalCallback(") for line in pasted)
    asked = logging_snippets.recipe("sb3", [logging_snippets.lines_for([name], [plain]) for name in missing])
    assert any("SentinelCallback" in line for line in asked)
