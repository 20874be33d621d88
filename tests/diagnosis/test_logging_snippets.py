"""The lines that a foreign script needs."""

from rlclinic.diagnosis import logging_snippets


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
