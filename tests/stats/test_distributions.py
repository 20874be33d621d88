import math

import numpy as np
import scipy.special
import scipy.stats
from hypothesis import example, given
from hypothesis import strategies as st

from rlclinic.stats import distributions


@given(value=st.floats(-30, 30))
def test_the_normal_tails_agree_with_scipy(value: float) -> None:
    np.testing.assert_allclose(distributions.normal_tail(value), scipy.stats.norm.sf(value), rtol=1e-12)
    np.testing.assert_allclose(distributions.normal_cdf(np.array([value]))[0], scipy.stats.norm.cdf(value), rtol=1e-12)


@given(probability=st.floats(1e-9, 1 - 1e-9))
def test_the_normal_quantile_agrees_with_scipy(probability: float) -> None:
    np.testing.assert_allclose(distributions.normal_quantile(probability), scipy.stats.norm.ppf(probability), rtol=1e-9, atol=1e-12)


@given(a=st.floats(0.05, 200), b=st.floats(0.05, 200), x=st.floats(0, 1))
def test_the_incomplete_beta_function_agrees_with_scipy(a: float, b: float, x: float) -> None:
    np.testing.assert_allclose(distributions.incomplete_beta(a, b, x), scipy.special.betainc(a, b, x), rtol=1e-8, atol=1e-12)


@given(t=st.floats(-60, 60), freedom=st.floats(1, 500))
@example(t=1.192092896e-07, freedom=79.0)
def test_students_tail_agrees_with_scipy(t: float, freedom: float) -> None:
    np.testing.assert_allclose(distributions.student_tail(t, freedom), 2 * scipy.stats.t.sf(abs(t), freedom), rtol=1e-8, atol=1e-13)


def test_an_infinite_t_leaves_no_chance() -> None:
    assert distributions.student_tail(math.inf, 5.0) == 0.0
