import pytest

from rlclinic.comparison import phases
from tests.comparison.builders import run, side


def test_thirds_are_those_of_the_run() -> None:
    each = run([1.0] * 9, more={"train/loss/value": [9.0, 9.0, 9.0, 4.0, 4.0, 4.0, 1.0, 1.0, 1.0]})
    assert phases.thirds(each, "train/loss/value") == (9.0, 4.0, 1.0)


def test_a_maximum_stays_a_maximum() -> None:
    each = run([1.0] * 3, more={"train/metrics/grad_norm/max": [1.0, 50.0, 2.0]})
    assert phases.thirds(each, "train/metrics/grad_norm/max") == (1.0, 50.0, 2.0)
    both = run([1.0] * 6, more={"train/metrics/grad_norm/max": [1.0, 7.0, 50.0, 3.0, 2.0, 0.0]})
    assert phases.thirds(both, "train/metrics/grad_norm/max") == (7.0, 50.0, 2.0)


def test_a_metric_that_began_late_is_unknown_before() -> None:
    each = run([1.0] * 3, more={"train/metrics/entropy": [float("nan"), float("nan"), 0.5]})
    assert phases.thirds(each, "train/metrics/entropy") == (None, None, 0.5)
    assert phases.thirds(each, "train/loss/policy") == (None, None, None)


def test_rows_hold_every_side_and_leave_out_what_nobody_logged() -> None:
    one = side(run([1.0] * 3, more={"train/loss/value": [3.0, 2.0, 1.0]}))
    found = phases.rows([one, side([1.0, 2.0, 3.0])])
    assert [row.metric for row in found] == ["val/roll/ep_rew_mean", "train/loss/value"]
    assert found[1].values == [(3.0, 2.0, 1.0), (None, None, None)]
    assert "critic" in found[1].meaning


def test_loss_shares_weigh_each_term_as_the_optimizer_does() -> None:
    logged = {"train/loss/policy": [-0.1] * 3, "train/loss/value": [0.4] * 3, "train/loss/entropy": [-0.5] * 3}
    one = side(run([1.0] * 3, more=logged), settings={"algo.vf_coef": 0.5, "algo.ent_coef": 0.2})
    (found,) = phases.losses([one])
    assert found.policy == pytest.approx((0.25, 0.25, 0.25))
    assert found.value == pytest.approx((0.5, 0.5, 0.5))
    assert found.entropy == pytest.approx((0.25, 0.25, 0.25))


def test_a_weight_that_was_logged_goes_before_the_setting() -> None:
    logged = {"train/loss/policy": [0.1] * 3, "train/loss/value": [0.1] * 3, "train/hp/vf_coef": [1.0, 3.0, 9.0]}
    (found,) = phases.losses([side(run([1.0] * 3, more=logged), settings={"algo.vf_coef": 0.5})])
    assert found.value == pytest.approx((0.5, 0.75, 0.9))
    assert found.entropy == (None, None, None)


def test_sides_without_losses_have_no_shares() -> None:
    assert phases.losses([side([1.0, 2.0])]) == []
