"""Every rule: its bad case fires, its good cases and healthy runs stay silent, and what it says can be read and typed.

Each rule brings its cases along. They are put to it twice: as they are, made up, and with recorded runs in place of the made-up ones.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from rlclinic.config import CurriculumConfig, files, set_values
from rlclinic.diagnosis import engine, explanation, registry
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, KL, RETURN
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.rules import cases, ranks
from rlclinic.errors import NotFound
from rlclinic.runs.history import History
from tests.diagnosis import recorded
from tests.diagnosis.builders import healthy, series, setting, unsolved

RETURNS = (RETURN, EVAL_RETURN)
RULES = {each.id: each for each in registry.rules()}
HEALTHY = [name for name in recorded.names() if recorded.load(name)[0]["cause"] == "healthy"]


@pytest.fixture(params=["made", "recorded"])
def healthy_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs that cases are made of."""
    if request.param == "recorded":
        monkeypatch.setattr(cases, "base", lambda name: tuple(recorded.histories(name)))


def bad(id: str) -> list[History]:
    """A rule's bad case as a group."""
    shown = RULES[id].bad
    assert shown is not None
    runs = shown()
    return [runs] if isinstance(runs, History) else list(runs)


def said(id: str, group: list[History]) -> list[Finding]:
    return engine.examine(RULES[id], [Case(history) for history in group]).findings


def test_a_budget_of_gradient_steps_or_labels_is_not_measured_in_episodes() -> None:
    """A hundred labels of an expert are few, and a hundred thousand of them nobody gives."""
    (few,) = said("BUD104", [cases.recorded(max_env_steps=500, settings={"run.max_env_steps": 500})])
    assert (few.text, few.remedies[0].value) == ("500 gradient steps", 10_000)
    (asked,) = said(
        "BUD104",
        [cases.imitator({"train/imitation/labels": lambda share: 80 * share}, max_env_steps=80, settings={"run.max_env_steps": 80})],
    )
    assert (asked.text, asked.remedies[0].value) == ("80 steps to ask about", 1_600)


@pytest.mark.usefixtures("healthy_runs")
@pytest.mark.parametrize("id", sorted(RULES))
def test_every_rule_fires_on_its_bad_case(id: str) -> None:
    found = said(id, bad(id))
    assert found, f"{RULES[id].name} said nothing"
    assert max(finding.strength for finding in found) >= 0.5


@pytest.mark.usefixtures("healthy_runs")
@pytest.mark.parametrize("id", sorted(id for id, each in RULES.items() if each.good))
def test_a_rule_is_silent_on_its_good_cases(id: str) -> None:
    for shown in RULES[id].good:
        assert [finding.text for finding in explanation.examine_shown(RULES[id], shown)] == []


# The returns of these runs do rise to the end: that they could go on is right to say.
@pytest.mark.usefixtures("healthy_runs")
@pytest.mark.parametrize("id", sorted(RULES.keys() - {"BUD101"}))
def test_every_rule_is_silent_on_a_run_that_is_only_below_its_threshold(id: str) -> None:
    """The bad cases differ from these runs by one thing: without it the rule must have nothing to say."""
    bases = (cases.unsolved(), cases.continuous(), cases.q_learner(), cases.soft_actor())
    assert [finding.text for base in bases for finding in said(id, [base]) if finding.strength >= 0.5] == []


@pytest.mark.parametrize("name", ["cp-healthy", "pd-healthy", "dqn-healthy", "sac-healthy"])
def test_the_made_up_runs_are_healthy(name: str) -> None:
    found = engine.diagnose(cases.base(name))
    assert (found.verdict, found.causes[0].id, found.findings) == ("SOLVED", "healthy", ())


@pytest.mark.parametrize("name", HEALTHY)
def test_no_rule_is_loud_about_a_healthy_group(name: str) -> None:
    found = engine.diagnose(recorded.histories(name))
    assert [finding.rule for finding in found.findings if finding.severity is Severity.HIGH] == []
    assert found.causes[0].id in ("healthy", "no-reference")


@pytest.mark.usefixtures("healthy_runs")
@pytest.mark.parametrize("id", sorted(RULES))
def test_what_a_rule_says_is_a_sentence_with_numbers_and_remedies_that_can_be_typed(id: str) -> None:
    found = said(id, bad(id))
    config = files.load("CartPole-v1:ppo").config
    learner = bad(id)[0].algo
    if learner not in ("ppo", "a2c", "reinforce", None):
        config = set_values(config, [f"algo.name={learner}"])
    if (stages := bad(id)[0].settings.get("curriculum.stages")) is not None:
        config = config.model_copy(update={"curriculum": CurriculumConfig(stages=stages)})
    for finding in found:
        assert finding.text
        assert "nan" not in re.split(r"\W+", finding.text.lower())
        assert finding.evidence
        assert 0 < finding.strength <= 1
        for remedy in finding.remedies:
            assert remedy.text
            if remedy.setting is not None:
                assert remedy.override is not None
                set_values(config, [remedy.override])


def test_a_rule_is_documented() -> None:
    for id, rule in RULES.items():
        assert rule.title.endswith("."), id
        assert "## Why it hurts" in rule.doc, id
        assert "## When it is fine" in rule.doc, id
        assert rule.cites, id
        assert re.fullmatch(r"[a-z][a-z0-9-]+", rule.name), id


def test_rules_are_found_by_id_and_by_name_and_the_nearest_is_offered() -> None:
    assert registry.find("pol101") is registry.find("policy-step-too-large") is RULES["POL101"]
    with pytest.raises(NotFound, match="policy-step-too-large"):
        registry.find("policy-step-to-large")


def test_selecting_and_ignoring_take_beginnings_of_ids() -> None:
    assert {each.family for each in registry.selected(["POL"])} == {"policy"}
    assert "POL101" not in {each.id for each in registry.selected(["POL"], ["POL101"])}
    with pytest.raises(NotFound, match="no rule begins with 'XYZ'"):
        registry.selected(["XYZ"])


def test_a_rule_without_documentation_or_with_a_taken_id_is_refused() -> None:
    def check(case: Case) -> list[Finding]:
        """Something."""
        return []

    with pytest.raises(ValueError, match="Why it hurts"):
        registry.rule("ZZZ999", severity=Severity.LOW)(check)
    check.__doc__ = "A fault.\n\n## Why it hurts\nx\n\n## When it is fine\ny"
    with pytest.raises(ValueError, match="the id is taken"):
        registry.rule("POL101", severity=Severity.LOW)(check)
    with pytest.raises(ValueError, match="no reference 'nobody1999'"):
        registry.rule("ZZZ999", severity=Severity.LOW, cites=["nobody1999"])(check)


def test_what_an_input_is_missing_is_named() -> None:
    history = healthy()
    case = Case(history)
    assert RULES["POL101"].missing(case) == []
    bare = Case(type(history)(id="x", source="csv", algo="ppo"))
    assert RULES["POL103"].missing(bare) == ["train/metrics/kl_divergence", "train/metrics/clip_fraction"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0113, "0.0113"),
        (1.5e-5, "1.5e-5"),
        (212.4, "212"),
        (104_233.0, "104k"),
        (2_500_000.0, "2.5M"),
        (0.0, "0"),
        (float("nan"), "-"),
        (0.0005, "0.0005"),
    ],
)
def test_numbers_are_said_shortly(value: float, text: str) -> None:
    assert registry.say(value) == text


@pytest.mark.parametrize(
    ("value", "weak", "strong", "wanted"), [(0, 1, 3, 0), (2, 1, 3, 0.5), (9, 1, 3, 1), (0.1, 0.5, 0.3, 1), (0.4, 0.5, 0.3, 0.5)]
)
def test_a_grade_goes_from_weak_to_strong_in_either_direction(value: float, weak: float, strong: float, wanted: float) -> None:
    assert registry.grade(value, weak, strong) == pytest.approx(wanted)


def test_flags_that_never_change_are_states_that_are_never_visited() -> None:
    (sick,) = bad("ENV604")
    assert said("ENV604", [replace(sick, settings={**sick.settings, "about.obs_flags": 0.0})])
    assert not said("ENV604", [replace(sick, settings={**sick.settings, "about.obs_flags": 64.0})])


@pytest.mark.parametrize("id", ["CFG107", "ENV608"])
def test_what_an_error_says_should_be_tried_is_the_remedy(id: str) -> None:
    (sick,) = bad(id)
    told = replace(sick, reason="Walk: env 0 has no map.\n  It cannot be made. Try: --set env.kwargs.map=a\n  Nothing is lost.")
    assert [each.text for each in said(id, [told])[0].remedies] == ["--set env.kwargs.map=a"]
    assert said(id, [told])[0].text.endswith("no map")


def test_what_a_normalizer_cannot_bring_to_size_one_is_as_good_as_zero() -> None:
    faint = series(unsolved(), {"train/sentinel/obs_abs_max": 3e-5, "train/sentinel/obs_std_min": 5e-7})
    assert not said("ENV601", [setting(faint, env__normalize_obs=False)])
    (found,) = said("ENV601", [setting(faint, env__normalize_obs=True)])
    assert "no component is larger than 3e-5" in found.text


def test_actions_that_once_brought_a_return_far_above_chance_have_an_effect() -> None:
    (sick,) = bad("ENV616")
    chance = {"train/sentinel/random_return": 22.0, "train/sentinel/random_return_std": 5.0}
    returns = sick.series["train/roll/ep_rew_mean"]
    assert said("ENV616", [series(sick, chance)])
    good = series(sick, chance | {returns.name: lambda share: np.where((share > 0.2) & (share < 0.4), 200.0, 22.0)})
    assert not said("ENV616", [good])


@pytest.mark.parametrize(("exploration", "share", "wrong"), [("ucb", 0.05, False), ("epsilon", 0.0, False), ("epsilon", 0.05, True)])
def test_seeds_of_a_table_may_be_equal_only_where_it_chooses_without_chance(exploration: str, share: float, wrong: bool) -> None:
    group = [
        setting(replace(series(each, {"train/hp/epsilon": share}), algo="q_learning"), algo__exploration=exploration)
        for each in bad("CFG103")
    ]
    assert bool(said("CFG103", group)) is wrong


@pytest.mark.parametrize("seed", [None, 0])
def test_one_seed_trained_twice_is_no_second_seed_and_one_run_read_twice_is_no_copy(seed: int | None) -> None:
    one, other = (replace(each, seed=seed) for each in bad("CFG103"))
    assert said("CFG103", [one, other])
    assert not said("CFG103", [one, replace(other, series={name: each for name, each in other.series.items() if "sentinel" not in name})])


@pytest.mark.parametrize("id", ["ENV620", "ENV627", "REW512", "RPL114"])
def test_what_is_wrong_with_a_task_is_said_of_a_run_that_rises_and_has_no_threshold(id: str) -> None:
    rising = {"train/roll/ep_rew_mean": lambda share: 20 + 300 * share, "val/roll/ep_rew_mean": None}
    group = [replace(series(each, rising), threshold=None) for each in bad(id)]
    assert not any(Case(each).sick for each in group)
    assert said(id, group)
    assert engine.diagnose(group).causes[0].severity != Severity.HIGH


def test_where_every_start_looks_alike_no_final_observation_is_called_overwritten() -> None:
    alike = {"train/sentinel/start_distinct": 0.1, "train/sentinel/starts": 10.0}
    assert said("ENV607", bad("ENV607"))
    assert not said("ENV607", [series(each, alike) for each in bad("ENV607")])


@pytest.mark.parametrize(("share", "never"), [(0.0, True), (0.001, False)])
def test_a_table_lacks_a_reward_that_never_came_and_remembers_one_that_came_rarely(share: float, never: bool) -> None:
    (run,) = bad("REW505")
    table = setting(replace(series(run, {"train/sentinel/reward_nonzero": share}), algo="q_learning"), algo__initial_value=0.0)
    found = said("REW505", [table])
    assert bool(found) is never
    if never:
        assert found[0].remedies[0].setting == "algo.initial_value"
        assert said("REW505", [setting(table, algo__initial_value=1e9)])[0].remedies[0].setting is None


@pytest.mark.parametrize("algo", ["gail", "dagger", "bc"])
def test_a_reward_that_nothing_is_learned_from_is_not_what_keeps_a_run_from_learning(algo: str) -> None:
    judged = {id for id, each in RULES.items() if each.applies(Case(replace(unsolved(), algo=algo)))}
    assert not {id for id in judged if RULES[id].family == "reward"}
    assert "ENV612" not in judged
    assert not {id for id in judged if "reward-gamed" in RULES[id].causes}
    assert "ENV601" in judged
    assert {"REW501", "ENV612"} <= {id for id, each in RULES.items() if each.applies(Case(unsolved()))}


def test_labels_that_were_altered_are_told_however_well_the_policy_does() -> None:
    altered = {"train/imitation/label_is_executed": 1.0, "train/imitation/label_altered": 0.2}
    (found,) = engine.diagnose([cases.imitator(altered, threshold=-2000.0)]).causes[:1]
    assert (found.id, str(found.severity)) == ("labels-are-own-actions", "medium")


def test_what_is_exact_and_does_no_harm_is_a_remark_and_no_cause() -> None:
    for columns, settings, id in (
        ({"train/imitation/learned_share": lambda share: 1.0 - 0.9 * share}, {"algo.keep_rounds": 1}, "IMI103"),
        ({"train/hp/policy_noise": 0.8}, {"algo.policy_noise": 0.8}, "IMI105"),
        ({"train/imitation/label_noise": 0.5}, {"algo.repeat_queries": 0.1}, "IMI108"),
        ({"train/imitation/expert_share": 0.93}, {"algo.beta": 0.93}, "IMI101"),
    ):
        told = engine.diagnose([cases.imitator(columns, settings=settings, threshold=-2000.0)])
        assert told.causes[0].id == "healthy"
        assert {each.rule: str(each.severity) for each in told.findings}[id] == "low"
        hurt = engine.diagnose([cases.imitator(columns, settings=settings)])
        assert hurt.causes[0].id in RULES[id].causes
        assert str(hurt.causes[0].severity) == "high"


def test_a_policy_at_the_bottom_that_twitches_does_not_swing() -> None:
    """Returns of 9.2 and 9.49 in turn, of 475, were told as a good policy that is found and lost."""
    rate = {"algo__learning_rate": 0.003}
    wide = setting(series(unsolved(), dict.fromkeys(RETURNS, cases.saw_tooth) | {KL: 0.02}), **rate)
    small = setting(series(unsolved(), {name: lambda share: 9.0 + cases.saw_tooth(share) / 300 for name in RETURNS} | {KL: 0.02}), **rate)
    assert said("LRN107", [wide])
    assert not said("LRN107", [small])


def test_minibatches_and_passes_that_are_there_are_not_offered() -> None:
    """A rollout of 64 with minibatches of 16 was offered minibatches of a quarter of it: 16."""

    def offered(size: float, n_steps: int = 16) -> list[str | None]:
        settings = {"env__n_envs": 4, "algo__n_steps": n_steps, "algo__n_epochs": 1, "algo__batch_size": size}
        found = said("BAT101", [setting(replace(unsolved(), max_env_steps=1_000), **settings)])
        return [remedy.setting for finding in found for remedy in finding.remedies]

    assert offered(16) == offered(0.25) == ["algo.n_epochs"]
    assert offered(1.0) == ["algo.n_epochs"], "nor minibatches of 16 rows to anybody"
    assert offered(1.0, n_steps=64)[-2:] == ["algo.batch_size", "algo.n_epochs"]


def test_two_slow_ranks_of_three_are_named_though_neither_is_always_the_slowest() -> None:
    turns = {ranks.RATIO: 1.9, ranks.SLOWEST: lambda share: 1.0 + np.arange(len(share)) % 2}
    (found,) = said("RNK106", [ranks._together(turns, ranks=3)])
    assert "one of ranks 1, 2 works 1.9 times as long as the others" in found.text
    everyone = {ranks.RATIO: 1.9, ranks.SLOWEST: lambda share: 1.0 * (np.arange(len(share)) % 3)}
    assert said("RNK106", [ranks._together(everyone, ranks=3)]) == []


def test_what_chooses_among_all_tasks_and_never_chose_the_task_itself_is_told_with_the_share_that_mends_it() -> None:
    never = {"train/curriculum/target_share": 0.0}
    run = cases.unsolved(never, settings={"curriculum.kind": "learnability", "curriculum.uniform_share": 0.0})
    (found,) = said("SUC205", [run])
    assert found.text == "0 % of the episodes were of the task itself"
    assert (found.remedies[0].setting, found.remedies[0].value) == ("curriculum.uniform_share", 0.2)
