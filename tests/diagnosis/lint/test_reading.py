"""What the text of an environment says: each slip is read, and the same text done right says nothing."""

import pytest

from rlclinic.diagnosis.lint.env import reading

HEAD = """
import numpy as np

FOUND, CRASHED = {found}, {crashed}


class Field:
    STAKE = {stake}

    def reset(self, *, seed=None, options=None):
        super().reset({seed})
        self.hour, self.days = 0.0, 0
        return self.look(), {{}}

    def far(self):
        return float(np.linalg.norm(self.place - self.goal))

    def step(self, action):
        before = self.far()
        self.hour += 0.1
        self.days += 1
        after = self.far()
        reward = {reward}
        if self.crashed:
            reward += CRASHED
        return self.look(), {paid}, {ended}, False, {{}}
"""
SOUND = {
    "found": "1.0", "crashed": "-5.0", "stake": "2.0", "seed": "seed=seed", "reward": "before - after", "paid": "reward",
    "ended": "self.hour >= 12.0",
}  # fmt: skip


def read(**slips: str) -> set[tuple[str, str]]:
    return {(each.cause, each.what) for each in reading.read(HEAD.format(**{**SOUND, **slips}), "Field")}


@pytest.mark.parametrize(
    "right",
    [
        {},
        {"reward": "-after"},
        {"reward": "-0.1 * after - 0.01 * fuel"},
        {"reward": "self.STAKE * won - lost"},
        {"reward": "gain - expense", "paid": "float(reward)"},
        {"crashed": "-1", "reward": "1.0 if reached else 0.0"},
        # A price with a minus of its own is taken away by adding it.
        {"reward": "self.STAKE * cost", "stake": "-2.0"},
        {"reward": "1.0 / (1.0 + after)"},
        {"reward": "np.exp(-after)"},
        {"reward": "max(0.0, 1.0 - after ** 2)"},
        # A weight that comes from elsewhere may have a minus of its own.
        {"reward": "self.weight * after"},
        {"ended": "self.crashed or self.full"},
        {"reward": "-abs(now - before)"},
        {"reward": "not_lost"},
    ],
)
def test_what_is_right_says_nothing(right: dict[str, str]) -> None:
    assert read(**right) == set()


def test_a_price_that_is_negative_when_it_is_made_is_taken_away_where_it_is_added() -> None:
    lines = "effort = {}\n        reward = near + effort"
    assert read(reward=f"near\n        {lines.format('-0.01 * push')}") == set()
    assert ("reward-sign", "effort is paid for") in read(reward=f"near\n        {lines.format('0.01 * push')}")


@pytest.mark.parametrize(
    ("wrong", "cause", "what"),
    [
        ({"reward": "after - before"}, "reward-sign", "distance is paid for"),
        ({"reward": "after"}, "reward-sign", "distance is paid for"),
        ({"crashed": "5.0"}, "reward-sign", "crashed is paid for"),
        ({"reward": "np.exp(after)"}, "reward-sign", "distance is paid for"),
        ({"reward": "-2 * profit"}, "reward-sign", "profit is taken away"),
        ({"reward": "fee + fuel"}, "reward-sign", "fee is paid for"),
        ({"reward": "self.STAKE * outcome", "stake": "-1.0", "crashed": "0.0"}, "reward-sign", "stake is negative, and turns the sign"),
        ({"seed": "seed=3"}, "starts-identical", "the same seed at every reset"),
        ({"paid": "int(reward)"}, "reward-sparse", "the reward is cut to whole numbers"),
        ({"reward": "-(burning // 9)"}, "reward-sparse", "the reward is cut to whole numbers"),
        ({"ended": "self.crashed or self.days >= 12"}, "time-limit-as-terminal", "self.days counts steps"),
        ({"reward": "0.5 * abs(self.place - before)"}, "deceptive-reward", "to and fro is paid alike"),
        ({"reward": "abs(self.goal - self.place)"}, "reward-sign", "distance is paid for"),
        ({"ended": "self.hour == 12.0"}, "time-limit-missing", "waits for exactly this number"),
    ],
)
def test_a_slip_is_read_with_its_line(wrong: dict[str, str], cause: str, what: str) -> None:
    assert (cause, what) in read(**wrong)
    passage = next(each for each in reading.read(HEAD.format(**{**SOUND, **wrong}), "Field") if each.cause == cause)
    assert passage.text == HEAD.format(**{**SOUND, **wrong}).splitlines()[passage.line - 1].strip()


def test_an_attribute_that_something_is_taken_away_from_may_hold_what_is_owed_as_a_negative_number() -> None:
    sound = HEAD.format(**{**SOUND, "reward": "self.bill"}).replace("        self.days += 1", "        self.bill -= self.days")
    wrong = sound.replace("self.bill -=", "self.bill +=")
    assert reading.read(sound, "Field") == []
    assert [each.what for each in reading.read(wrong, "Field")] == ["bill is paid for"]


def test_a_number_that_is_always_taken_away_and_named_as_a_gain_shifts_the_reward() -> None:
    found = reading.read(
        HEAD.format(**{**SOUND, "reward": "ALIVE - after"}).replace("FOUND,", "ALIVE,").replace("= 1.0,", "= -4.0,"), "Field"
    )
    assert [each.cause for each in found] == ["reward-shifted"]


def test_what_stands_on_lines_that_no_episode_runs_is_left_out() -> None:
    text = HEAD.format(**{**SOUND, "crashed": "5.0"})
    lines = {number for number, line in enumerate(text.splitlines(), 1) if "+= CRASHED" not in line}
    assert reading.read(text, "Field", lines) == []


def test_a_start_that_nothing_is_drawn_for_is_told_from_one_that_is() -> None:
    drawn = HEAD.format(**SOUND).replace("return self.look(), {{}}", "")
    assert reading.draws_at_starts(drawn, "Field") is False
    assert reading.draws_at_starts(drawn.replace("self.hour, self.days = 0.0, 0", "self.place = self.np_random.uniform()"), "Field") is True
    assert reading.draws_at_starts(drawn, "Meadow") is None


def test_what_cannot_be_parsed_or_has_no_such_class_says_nothing() -> None:
    assert reading.read("class Field(:", "Field") == []
    assert reading.read(HEAD.format(**SOUND), "Meadow") == []


@pytest.mark.parametrize(
    ("reward", "most", "expected"),
    [
        ("-0.01 + 1.0 * self.home", 0.01, True),
        ("-0.01 + (5.0 if self.home else 0.0)", 0.01, True),
        # It was paid, if with the other sign.
        ("-0.01 + 1.0 * self.home", 1.0, False),
        ("-5.0 * self.crashed - 0.01", 0.01, False),
        ("20.0 * (before - after)", 0.5, False),
    ],
)
def test_a_number_that_is_larger_than_anything_that_was_paid_is_still_to_be_met(reward: str, most: float, expected: bool) -> None:
    text = HEAD.format(**{**SOUND, "reward": reward})
    everything = range(text.count("\n") + 1)
    assert reading.pays_more_than_seen(text, "Field", everything, most) is expected


@pytest.mark.parametrize(("crashed", "expected"), [("5.0", True), ("-5.0", False)])
def test_what_is_added_on_a_line_that_did_not_run_is_still_to_be_met(crashed: str, expected: bool) -> None:
    text = HEAD.format(**{**SOUND, "crashed": crashed})
    unrun = next(number for number, line in enumerate(text.splitlines(), 1) if "+= CRASHED" in line)
    lines = [number for number in range(text.count("\n") + 1) if number != unrun]
    assert reading.pays_more_than_seen(text, "Field", lines, 100.0) is expected
