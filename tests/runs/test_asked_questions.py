"""Questions as a store keeps them: what makes two the same, what a repeat may err by, and that nothing is lost."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlclinic.config import files, set_values
from rlclinic.runs import questions
from rlclinic.runs.questions import Attempt
from rlclinic.runs.store import Store

CONFIG = files.load("CartPole-v1:ppo_zoo").config


def ask(config=CONFIG, changes=("algo.gamma=0.9",), outcome="steps", env="CartPole-v1", title=""):
    return questions.identify(env, config, changes, outcome, title)


@pytest.mark.parametrize(
    "same",
    [
        set_values(CONFIG, ["seed=7"]),
        CONFIG.model_copy(update={"name": "another"}),
        set_values(CONFIG, ["run.threads=2"]),
        set_values(CONFIG, ["run.stop_at_threshold=true"]),
        set_values(CONFIG, ["spec.description=words"]),
    ],
)
def test_seed_name_and_machine_make_no_other_question(same):
    assert ask(same).id == ask().id
    assert ask(title="other words").id == ask().id


@pytest.mark.parametrize(
    "other",
    [
        ask(set_values(CONFIG, ["algo.learning_rate=0.1"])),
        ask(set_values(CONFIG, ["run.max_env_steps=9999"])),
        ask(changes=("algo.gamma=0.8",)),
        ask(outcome="return"),
        ask(env="Acrobot-v1"),
    ],
)
def test_another_control_change_outcome_or_environment_does(other):
    assert other.id != ask().id


def test_the_order_of_changes_does_not_matter():
    assert ask(changes=("a=1", "b=2")).id == ask(changes=("b=2", "a=1")).id


def test_all_repeats_together_may_err_by_no_more_than_the_first():
    alphas = [questions.next_alpha(0.05, repeats) for repeats in range(10_000)]
    assert alphas[0] == 0.05
    assert alphas[1] == pytest.approx(0.05 * 6 / math.pi**2)
    assert sum(alphas[1:]) <= 0.05
    assert sum(alphas) <= 2 * 0.05
    assert questions.chance_of_any([0.05] * 3) == pytest.approx(0.142625)


def test_what_is_asked_is_found_again_and_a_resume_is_not_counted_twice(tmp_path):
    store = Store(tmp_path)
    assert questions.look_up(store, ask()) is None
    for refers in ("t1", "t1", "t2"):
        questions.register(store, ask(title="gamma"), Attempt("trial", refers, 1.0, 0.05))
    found = questions.look_up(store, ask())
    assert found is not None
    assert [each.refers for each in found.asked] == ["t1", "t2"]
    assert found.spent == pytest.approx(1 - 0.95**2)
    assert found.question.title == "gamma"
    questions.register(store, ask(outcome="return"), Attempt("optimize", "t3", 2.0, 0.01, independent=True, seed0=5))
    assert [history.question.outcome for history in questions.histories(store)] == ["return", "steps"]
    assert questions.histories(store)[0].asked[0] == Attempt("optimize", "t3", 2.0, 0.01, independent=True, seed0=5)


def test_many_who_ask_at_once_are_all_written_down(tmp_path):
    store = Store(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: questions.register(store, ask(), Attempt("trial", f"t{number}", 1.0, 0.05)), range(24)))
    found = questions.look_up(store, ask())
    assert found is not None
    assert len(found.asked) == 24


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema_version": 99}', '{"asked": [1, {"kind": "x"}, {"kind": "trial"}]}'])
def test_a_damaged_file_is_as_if_nothing_was_asked(tmp_path, text):
    store = Store(tmp_path)
    questions.register(store, ask(), Attempt("trial", "t1", 1.0, 0.05))
    path = tmp_path / "@questions" / f"{ask().id}.json"
    assert json.loads(path.read_text())["asked"][0]["refers"] == "t1"
    path.write_text(text)
    found = questions.look_up(store, ask())
    assert found is None or found.asked == ()
    assert all(not history.asked for history in questions.histories(store))
