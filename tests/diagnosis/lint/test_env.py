"""Looking at environments: one fault, one alarm; good ones raise none; whatever they do, the answer comes in time."""

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rlclinic
from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.env import EnvLint, lint_facts
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.diagnose import examine_env, lint
from rlclinic.training.envs.examine import farming, play, scripts
from rlclinic.training.envs.examine.contract import Clock, Notes, Probe
from rlclinic.training.envs.examine.environment import examine
from rlclinic.training.envs.examine.target import factory_of
from tests.diagnosis import examined_envs
from tests.diagnosis.examined_envs import FAULTS, OF_TRANSITIONS, ClockOrWall, Walk

GOOD = [
    "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "LunarLander-v3", "FrozenLake-v1", "Taxi-v3",
    "CliffWalking-v1",
]  # fmt: skip
MODULE = str(Path(examined_envs.__file__))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough steps for a verdict on small environments."""
    monkeypatch.setattr(play, "RANDOM_STEPS", 800)
    monkeypatch.setattr(play, "CONSTANT_STEPS", 120)
    monkeypatch.setattr(play, "SCRIPTED_EPISODES", 2)
    monkeypatch.setattr(farming, "EPISODES", 12)
    monkeypatch.setattr(farming, "MOST_PREFIXES", 4)
    monkeypatch.setattr(farming, "HOLDS", (1,))


def looked_at(make: Any, name: str = "Walk", seconds: float = 8.0) -> EnvLint:
    return lint_facts(examine(make, name, seconds))


def alarms(found: EnvLint, least: Severity = Severity.MEDIUM) -> set[str]:
    return {finding.rule for finding in found.findings if finding.severity.rank >= least.rank}


@pytest.mark.parametrize("make", [examined_envs.FailingCosts, examined_envs.GoalSaves])
@pytest.mark.usefixtures("few")
def test_an_end_that_costs_enough_or_is_the_goal_saves_nothing(make: Any) -> None:
    assert "ENV419" not in {finding.rule for finding in looked_at(make).findings}


@pytest.mark.usefixtures("few")
def test_a_good_environment_raises_no_alarm() -> None:
    found = looked_at(Walk)
    assert [f"{finding.rule}: {finding.text}" for finding in found.findings] == []
    assert found.skipped == {"scripted actions": "no script for this task"}
    assert found.ends["terminated"] > 0
    assert found.ends["truncated"] > 0
    assert {each.label for each in found.played} == {"random", "action 0", "action 1", "action 2"}
    best = {each.label: each.mean for each in found.played}
    assert best["action 2"] > best["random"] > best["action 0"]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("fault", [name for name, (id, _) in FAULTS.items() if id not in ("ENV213", "ENV304")])
def test_a_fault_is_found_and_nothing_else_is_loud(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    id, kind = FAULTS[fault]
    if id == "ENV209" or kind is ClockOrWall:  # that an episode does not end, or not later than that, takes longer to see
        monkeypatch.setattr(play, "RANDOM_STEPS", 2_200)
    found = looked_at(kind, kind.__name__)
    assert id in {finding.rule for finding in found.findings}, [finding.text for finding in found.findings]
    assert alarms(found) <= {id, *CONSEQUENCES.get(fault, ())}


def test_what_is_paid_once_and_what_is_not_finished_by_any_probe_is_no_farming() -> None:
    """Facts as an examination writes them: a detour with something to pick up pays more than going straight, and no loop does."""
    finished, direct = {"return": 9.0, "steps": 24}, {"return": 8.0, "steps": 8}
    other = {"return": 1.0, "steps": 120, "terminated": False, "how": ""}
    facts = {"name": "x", "farming": {"finished": finished, "direct": direct, "other": other, "loop": None}}
    assert "ENV214" not in {each.rule for each in lint_facts(facts).findings}
    loop = other | {"return": 20.0, "how": "action 0 and action 2 in turn"}
    facts["farming"] |= {"other": loop, "loop": loop}  # type: ignore[operator]
    (finding,) = [each for each in lint_facts(facts).findings if each.rule == "ENV214"]
    assert finding.text.startswith("action 0 and action 2 in turn brought 20 in 120 steps without finishing")
    facts["farming"] = {"finished": None, "direct": None, "other": loop, "loop": loop}
    assert "ENV214" not in {each.rule for each in lint_facts(facts).findings}


def test_giving_up_is_farming_only_if_the_way_to_the_end_is_known_well_enough() -> None:
    """A way that was found by chance costs more than one that is practised: only a much cheaper end tells something."""
    finished = {"return": -80.0, "steps": 90}
    given_up = {"return": -61.0, "steps": 6, "terminated": True, "how": ""}
    seen = {"finished": finished, "direct": finished, "settled": False, "other": given_up, "loop": None}

    def speaks(**changes: Any) -> bool:
        return "ENV214" in {each.rule for each in lint_facts({"name": "x", "farming": {**seen, **changes}}).findings}

    assert not speaks()
    assert speaks(settled=True)
    assert speaks(other={**given_up, "return": -11.0})
    assert not speaks(other={**given_up, "return": -11.0}, direct=None), "nobody tried to shorten it"


class Posts(gym.Env[Any, Any]):
    """Four posts in a square pay when they are passed in order, the gate in the corner ends it. With `again` they pay in every round."""

    observation_space = gym.spaces.Box(0, 8, (3,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self, *, again: bool) -> None:
        self.again = again

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.passed, self.clock = (2, 3), 0, 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        (x, y), (dx, dy) = self.at, ((0, 1), (1, 0), (0, -1), (-1, 0))[int(action)]
        self.at, self.clock = (min(max(x + dx, 0), 6), min(max(y + dy, 0), 6)), self.clock + 1
        pays = self.at == ((2, 2), (2, 4), (4, 4), (4, 2))[self.passed % 4] and (self.again or self.passed < 4)
        self.passed += pays
        there = self.at == (6, 6)
        return self._obs(), 0.5 * pays + 3.0 * there - 0.01, there, self.clock >= 200, {"is_success": there}

    def _obs(self) -> Any:
        return np.array([*self.at, self.passed % 4], np.float32)


def test_a_way_round_that_no_two_actions_make_is_found_to_pay_more_than_finishing() -> None:
    for again in (True, False):
        seen = examine(lambda again=again: Posts(again=again), "posts", 8.0)  # type: ignore[misc]
        texts = [finding.text for finding in lint_facts(seen).findings if finding.rule == "ENV214"]
        assert bool(texts) is again, seen["farming"]
        assert not again or "action 0, action 1, action 2 and action 3 in turn" in texts[0]


def test_a_finish_that_random_actions_miss_is_climbed_to() -> None:
    """The way there is paid step by step; a random walk of 40 steps does not get to the end of a corridor of 30."""

    class Corridor(Walk):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
            self.place, self.clock = 0, 0
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            # Every third step must be another one: no action that is held leads far.
            right = int(action) == self.place % 3
            self.place, self.clock = self.place + 1 if right else max(0, self.place - 1), self.clock + 1
            there = self.place == 12
            return np.zeros(1, np.float32), float(self.place), there, self.clock >= 60, {"is_success": there}

    probe = Probe(Corridor(), Notes(), Clock(60.0))
    assert farming.measure(probe)["finished"] is not None


CONSEQUENCES: dict[str, tuple[str, ...]] = {
    "reset takes no seed": ("ENV203",),  # without a seed nothing can be repeated
    "one array for all": ("ENV203",),
    "copies share a list": ("ENV203",),
    "unbounded actions": ("ENV115",),
    "one possible action": ("ENV207",),
    "rewards drift": ("ENV206",),  # what drifts is what a reset does not reset
}


@pytest.mark.usefixtures("few")
def test_every_check_of_environments_has_an_environment_that_it_speaks_about() -> None:
    tested = {id for id, _ in FAULTS.values()} | {"ENV202"} | {id for id, *_ in OF_TRANSITIONS.values()}
    assert {each.id for each in checks.checks("ENV")} == tested


def test_differing_scales_are_told() -> None:
    rows = [
        {"mean": 0.0, "std": 1e-5, "min": -1e-4, "max": 1e-4, "whole": False},
        {"mean": 0.0, "std": 2.0, "min": -4.0, "max": 4.0, "whole": False},
    ]
    facts = {
        "name": "x",
        "dimensions": rows,
        "random": {"steps": 900, "returns": [], "lengths": [], "unfinished_steps": 900, "seconds": 1.0},
    }
    assert {finding.rule for finding in lint_facts(facts).findings} == {"ENV304"}


def test_a_slow_environment_is_told_with_what_a_million_steps_cost() -> None:
    found = looked_at(examined_envs.Slow, seconds=1.0)
    (slow,) = [finding for finding in found.findings if finding.rule == "ENV213"]
    assert "a million steps take" in slow.text
    assert found.skipped  # and what there was no time for


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("env_id", GOOD)
def test_a_well_known_environment_raises_no_alarm(env_id: str) -> None:
    found = looked_at(factory_of(env_id, {}), env_id)
    assert [f"{finding.rule}: {finding.text}" for finding in found.findings if finding.severity is not Severity.LOW] == []
    assert set(found.skipped) <= {"scripted actions"}


@pytest.mark.parametrize(
    "env_id",
    [pytest.param(env_id, marks=pytest.mark.loop) for env_id in ("CliffWalking-v1", "MountainCarContinuous-v0", "LunarLander-v3")],
)
def test_a_well_known_environment_raises_no_alarm_when_looked_at_in_full(env_id: str) -> None:
    found = lint.lint_env(env_id).lint
    assert [f"{finding.rule}: {finding.text}" for finding in found.findings if finding.severity is not Severity.LOW] == []
    assert found.seconds < 20


@pytest.mark.parametrize(
    ("env_id", "least"), [("CartPole-v1", 400), ("MountainCar-v0", -140), ("Acrobot-v1", -120), ("CliffWalking-v1", -13)]
)
def test_a_scripted_policy_does_what_it_is_for(env_id: str, least: float) -> None:
    from rlclinic.training.envs.examine.contract import Clock, Notes, Probe

    act = scripts.script_for(env_id)
    assert act is not None
    played = play.play(Probe(gym.make(env_id), Notes(), Clock(20)), act, 3, 2_000, 1)
    assert np.mean(played.returns) >= least


# ── findings ──


def test_what_raised_is_told_with_step_action_and_place() -> None:
    found = looked_at(examined_envs.Raises)
    (told,) = [finding.text for finding in found.findings if finding.rule == "ENV201"]
    assert "step 12 with action" in told
    assert "ZeroDivisionError: the wall is too near (examined_envs.py:" in told


@pytest.mark.usefixtures("few")
def test_the_same_environment_gives_the_same_answer() -> None:
    def told() -> dict[str, Any]:
        return looked_at(Walk).model_dump(exclude={"seconds", "steps_per_second"})

    assert told() == told()


@pytest.mark.usefixtures("few")
def test_success_flags_and_nested_observations_are_seen() -> None:
    class Told(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Dict({"line": self.observation_space, "at": gym.spaces.Discrete(5)})

        def look(self) -> Any:
            return {"line": super().look(), "at": np.int64(3)}

        def step(self, action: Any) -> Any:
            return (*super().step(action)[:4], {"is_success": self.place > 1})

    found = looked_at(Told)
    assert found.success is not None
    assert 0 < found.success < 1
    assert len(found.dimensions) == 2
    assert alarms(found) == set()


class Room(gym.Env[Any, Any]):
    """Walk to a door of a square room: from one start in four a single action leads there at once."""

    observation_space: Any = gym.spaces.Box(-4.0, 4.0, (2,), np.float32)
    action_space: Any = gym.spaces.Discrete(4)
    moves: Any = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    pays: Any = staticmethod(float)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1, 1, 2), 0
        self.door = np.clip(self.place + self.np_random.choice([-0.35, 0.35], 2) * self.np_random.permutation([1, 0]), -1, 1)
        return (self.door - self.place).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        self.place = np.clip(self.place + 0.15 * self.moves[int(action)], -1, 1)
        self.steps += 1
        reached = bool(np.linalg.norm(self.place - self.door) < 0.16)
        info = {"is_success": reached}
        return (self.door - self.place).astype(np.float32), self.pays(reached), reached, self.steps >= 60 and not reached, info


def test_a_door_that_one_action_leads_to_at_once_does_not_mean_that_actions_hardly_count() -> None:
    """The episode that ends after a few steps says nothing of how far the others come, and a goal that chance meets is no sparse one."""
    assert [f"{finding.rule}: {finding.text}" for finding in looked_at(Room).findings] == []


def test_a_reward_at_the_end_is_told_where_chance_hardly_meets_it() -> None:
    class Far(Room):
        def step(self, action: Any) -> Any:
            obs, _, reached, *rest = super().step(action if self.steps % 7 else 0)
            return obs, float(reached and self.steps < 3), reached, *rest

    assert "ENV312" in {finding.rule for finding in looked_at(Far).findings}


@pytest.mark.parametrize("counts", [True, False])
def test_what_an_action_does_in_a_single_step_is_tried_from_many_starts(*, counts: bool) -> None:
    class Advertisement(Walk):
        def step(self, action: Any) -> Any:
            clicked = self.np_random.random() < (0.15 * int(action) if counts else 0.15)
            return self.look(), float(clicked), True, False, {}

    assert ("ENV207" in {finding.rule for finding in looked_at(Advertisement).findings}) is not counts


# ── in a process of its own ──


def test_an_environment_of_a_file_is_looked_at_in_another_process() -> None:
    found = lint.lint_env(f"{MODULE}:NotANumber", seconds=6.0, select=["ENV1"]).lint
    assert {finding.rule for finding in found.findings} == {"ENV107"}


def test_an_environment_that_does_not_come_back_is_answered_in_time() -> None:
    found = lint.lint_env(f"{MODULE}:Blocks", seconds=3.0).lint
    assert [finding.rule for finding in found.findings] == ["ENV202"]
    assert "it did not come back" in found.skipped.values()


def test_an_environment_that_kills_its_process_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "deadly.py"
    root = str(Path(MODULE).parents[2])
    path.write_text(
        f"import os, sys\nsys.path.insert(0, {root!r})\nfrom tests.diagnosis.examined_envs import Walk\n"
        "class Deadly(Walk):\n    def step(self, action):\n        print('last words')\n        os._exit(9)\n"
    )
    found = lint.lint_env(f"{path}:Deadly", seconds=5.0).lint
    assert [finding.rule for finding in found.findings] == ["ENV201"]
    assert "the process died" in found.findings[0].text


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("CartPole-v9000", NotFound, "No environment is registered"),
        ("nowhere.py:Env", NotFound, "there is no file nowhere.py"),
        (f"{MODULE}:Wolk", NotFound, "Walk"),
        (MODULE, UsageError, "Which one is meant"),
        ("no_such_module:Env", NotFound, "cannot be imported"),
    ],
)
def test_a_target_that_means_nothing_says_what_to_type(target: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        factory_of(target, {})


def test_arguments_that_the_environment_does_not_take_are_told() -> None:
    with pytest.raises(ConfigError, match=r"Walk\(size=3\) raised TypeError"):
        factory_of(f"{MODULE}:Walk", {"size": 3})()


def test_what_is_made_must_be_a_single_environment() -> None:
    with pytest.raises(ConfigError, match=r"made a dict, which has no reset\(\) and step\(\)"):
        examine(dict, "dict", 1.0)
    with pytest.raises(ConfigError, match="a vector of 2 environments"):
        examine(lambda: gym.make_vec("CartPole-v1", num_envs=2), "CartPole-v1", 1.0)


# ── Python ──


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("env", [Walk, Walk(), lambda: Walk()], ids=["class", "instance", "function"])
def test_an_object_of_the_program_can_be_looked_at(env: Any) -> None:
    assert alarms(rlclinic.lint_env(env, seconds=5.0)) == set()


def test_an_object_that_blocks_does_not_block_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine_env, "GRACE", 0.2)
    found = rlclinic.lint_env(examined_envs.Blocks, seconds=0.5)
    assert [finding.rule for finding in found.findings] == ["ENV202"]


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(UsageError, match="neither an environment nor makes one"):
        rlclinic.lint_env(3)


def test_looking_at_an_environment_needs_no_torch() -> None:
    import subprocess

    code = (
        "import sys; import rlclinic.training.envs.examine.environment; print([name for name in ('torch', 'scipy') if name in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"
