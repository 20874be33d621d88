"""What a trial says: before, while it runs, and its four endings; on the command line and in its report."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlclinic.config import load, set_values
from rlclinic.errors import UsageError
from rlclinic.ops.treat.arms import resolve, typed
from rlclinic.ops.treat.race import RaceRequest, extend_race
from rlclinic.ops.treat.trial import TrialRequest, extend_trial, plan_trial, show_trial
from rlclinic.report import trial as trial_words
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.cli.text import compare_plot
from rlclinic.treatment.trial import arms, conduct
from rlclinic.treatment.trial.models import Effect, Guardrail, Look, Range
from tests.treatment.pretended_training import pretend

RUNNER = CliRunner()
CONTROL = set_values(load("CartPole-v1:ppo_zoo").config, ["learning_rate=1e-2", "run.max_env_steps=20000", "run.eval_every_env_steps=1000"])


def rng_of(config):
    import numpy as np

    return np.random.default_rng(config.seed).random()


def run(root: Path, monkeypatch, shares, **options):
    """A trial whose arms reach the threshold after `shares` of their budget, more or less."""
    control, treated = shares
    pretend(
        monkeypatch,
        lambda config: (
            None if (share := treated if config.algo.learning_rate == 1e-3 else control) is None else share * (0.6 + 0.8 * rng_of(config))
        ),
    )
    plan = conduct.plan(arms.control(CONTROL), [arms.changed(CONTROL, ["learning_rate=1e-3"], "rx1")], seed0=100, **options)
    return conduct.run(Store(root), plan, cores=2)


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ((0.7, 0.55, 0.88), "30 % fewer steps [+12, +45]"),
        ((0.92, 0.77, 1.09), "8 % fewer steps [−9, +23]"),
        ((0.34, 0.2, 0.5), "2.9x fewer steps [2.0x, 5.0x]"),
        ((None, 0.0, 0.41), "at least 2.4x fewer steps"),
        ((1.5, 1.2, None), "50 % more steps [+20, +∞]"),
        ((3.0, 2.0, 4.0), "3.0x more steps [2.0x, 4.0x]"),
        ((None, 2.5, None), "at least 2.5x more steps"),
        ((None, 0.0, None), "no run to compare steps with"),
        ((1.0, 1 / 43, 43.0), "0 % fewer steps [43x fewer to 43x more]"),
        ((2.7, 0.0, 3.5), "2.7x more steps [no bound to 3.5x more]"),
        ((0.3, 0.0, None), "3.3x fewer steps [no bounds]"),
    ],
)
def test_ratios_are_said_as_people_say_them(ratio, said):
    assert trial_words.ratio_text(Range(value=ratio[0], low=ratio[1], high=ratio[2])) == said


def test_gains_have_a_sign():
    assert trial_words.gain_text(Range(value=0.5, low=-0.1, high=1.0), points=True) == "+50 points [−10, +100]"
    assert trial_words.gain_text(Range(value=-12.0, low=None, high=3.0), points=False) == "−12 [−∞, +3]"


def test_a_look_says_what_it_decided():
    look = Look(number=1, seeds=8, z={"rx1": 3.6}, bound=2.361, calls={"rx1": "better"}, decided=True, seconds=44.0)
    assert trial_words.decision_text(look, 4) == "z 3.60 > bound 2.36: decided, looks 2–4 not needed"
    open_ = look.model_copy(update={"z": {"rx1": -1.0}, "calls": {}, "decided": False})
    assert trial_words.decision_text(open_, 4) == "z −1.00 > bound −2.36: not decided yet"
    hopeless = look.model_copy(update={"z": {"rx1": 0.0}, "calls": {}})
    assert trial_words.decision_text(hopeless, 2) == "z 0.00 < bound 2.36: nothing tells the arms apart, look 2 not needed"
    assert trial_words.arm_bar("control", 8, 2, 1, 203.0, threshold=475.0) == "control ██░░░░░░ 2/8 solved, return 203, 1 failed"


@pytest.mark.parametrize(("verdict", "said"), [("adopt", True), ("less reliable", True), ("undecided", False), ("reject", False)])
def test_a_worse_guardrail_is_told_without_claiming_a_better_outcome_that_was_not_shown(verdict, said):
    worse = Guardrail(name="KL", control=0.01, treatment=0.3, worse=True, z=-4.0)
    effect = Effect.model_construct(verdict=verdict, guardrails=(worse,))
    assert trial_words.careful_text(effect) == "KL got worse" + (" while the outcome got better" if said else "")
    calm = Effect.model_construct(verdict=verdict, guardrails=(worse.model_copy(update={"worse": False}),))
    assert trial_words.careful_text(calm) == ""


def test_a_slower_treatment_is_said_in_env_steps_a_second_which_fall():
    slower = Guardrail(name="throughput", control=135.0, treatment=157.0, worse=True, z=-4.0)
    said = trial_words.guardrail_text(Effect.model_construct(guardrails=(slower,)))
    assert said == "WORSE: throughput 741 → 637 env steps/s"
    said = trial_words.guardrail_text(Effect.model_construct(guardrails=(slower,)), "gradient steps")
    assert said == "WORSE: throughput 741 → 637 gradient steps/s"


def test_the_command_that_asks_again_repeats_everything_but_the_seeds(tmp_path):
    asked = TrialRequest(
        targets=["CartPole-v1:ppo"], changes=["gamma=0.9"], arrival_margin=0.2, futility=False, margin=0.2, seeds=16, runs_dir=tmp_path
    )
    resolved = resolve(asked)
    words = typed(asked, resolved).split()
    for option in (["--arrival-margin", "0.2"], ["--margin", "0.2"], ["--seeds", "16"], ["--set", "gamma=0.9"]):
        assert words[words.index(option[0]) + 1] == option[1]
    assert "--no-futility" in words


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (TrialRequest(extend="t1", changes=["gamma=0.5"], margin=0.2), "changes, margin"),
        (RaceRequest(extend="r1", targets=["a.yaml"], alpha=0.2), "targets, alpha"),
    ],
)
def test_an_extension_of_another_question_is_refused(request_, named):
    with pytest.raises(UsageError, match=f"adds seeds to the question that was asked, and to nothing else: {named} would"):
        (extend_trial if isinstance(request_, TrialRequest) else extend_race)(request_)


def test_an_adopted_trial_has_the_rows_of_the_transcript(tmp_path, monkeypatch):
    found = run(tmp_path, monkeypatch, (None, 0.3))
    assert trial_words.headline(found) == "ADOPT rx1"
    rows = {row.label: row for row in trial_words.rows(found, found.effects[0])}
    assert rows["reached 475"].control == "0 of 8"
    assert rows["reached 475"].effect == "+100 points [+30, +100]"
    assert rows["steps to 475"].control == "> 20k, 8 censored"
    assert rows["steps to 475"].effect.startswith("at least ")
    assert "P(improvement) 1.00 [" in rows["final return, IQM"].effect
    assert trial_words.guardrail_text(found.effects[0]).endswith("none worse")


def test_the_other_endings_are_as_good(tmp_path, monkeypatch):
    rejected = run(tmp_path / "a", monkeypatch, (0.3, None))
    assert trial_words.headline(rejected) == "REJECT rx1: control was better"
    undecided = run(tmp_path / "b", monkeypatch, (0.4, 0.4), looks=1)
    assert trial_words.headline(undecided).startswith("UNDECIDED after 8 seeds: ")
    assert "more seeds an arm settle x0.70 to x1.43" in trial_words.headline(undecided)
    hopeless = run(tmp_path / "c", monkeypatch, (None, None))
    assert trial_words.headline(hopeless).startswith("UNDECIDED after 8 seeds: no run of any arm reached the threshold")
    equivalent = run(tmp_path / "d", monkeypatch, (0.4, 0.4), per_look=40, looks=1, margin=0.6)
    assert trial_words.headline(equivalent).startswith("EQUIVALENT within x0.62 to x1.60: rx1 is as good as control")
    for root in "abcd":
        assert show_trial("@last", tmp_path / root).files


# ── the command line ──


def test_a_dry_run_prints_question_arms_rule_power_and_cost(tmp_path):
    result = RUNNER.invoke(app, ["trial", "CartPole-v1:ppo", "--set", "learning_rate=1e-3", "--dry-run", "--runs-dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for part in ("does learning_rate 0.001 reach 475", "arms ", "rule ", "ends ", "can see ", "cost ", "≤ 6.4M env steps"):
        assert part in result.output
    assert not list(tmp_path.iterdir())


def test_too_few_seeds_to_see_anything_are_warned_about(tmp_path):
    words = ["trial", "CartPole-v1:ppo", "--set", "learning_rate=1e-3", "--dry-run", "--runs-dir", str(tmp_path)]
    few = RUNNER.invoke(app, [*words, "--per-look", "2", "--looks", "1"])
    assert "even a large effect is hardly ever seen" in few.output
    assert "hardly ever seen" not in RUNNER.invoke(app, words).output


@pytest.mark.parametrize("command", ["trial", "adopt"])
def test_help_is_there(command):
    result = RUNNER.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_runs_of_another_framework_are_tried_with_a_loud_remark():
    samples = Path(__file__).parents[1] / "readers" / "samples"
    result = RUNNER.invoke(app, ["trial", str(samples / "sb3_ppo"), "--set", "learning_rate=1e-4", "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "NOT YOUR SCRIPT" in result.output
    assert "rlclinic trial --run" in result.output
    replayed = RUNNER.invoke(app, ["trial", str(samples / "sb3_dqn"), "--set", "learning_rate=5e-4", "--dry-run"])
    assert replayed.exit_code == 0, replayed.output
    assert "NOT YOUR SCRIPT" in replayed.output


def test_a_trial_on_the_command_line_ends_with_what_to_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch, lambda config: 0.3 * (0.6 + 0.8 * rng_of(config)) if config.algo.learning_rate == 1e-3 else None)
    words = ["trial", "CartPole-v1:ppo_zoo", "--set", "learning_rate=1e-3", "--max-env-steps", "20000", "--yes"]
    result = RUNNER.invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "ADOPT change" in result.stdout
    assert "keep it   rlclinic adopt t" in result.stdout
    assert "look 1   control ░░░░░░░░ 0/8 solved" in result.stderr
    adopted = RUNNER.invoke(app, ["adopt", "@last", "--as", "CartPole-v1:mine"])
    assert adopted.exit_code == 0, adopted.output
    assert "+mine:" in adopted.stdout
    assert load("CartPole-v1:mine").config.algo.learning_rate == 1e-3
    listed = RUNNER.invoke(app, ["trial", "--list"])
    assert "adopt change" in listed.stdout
    found = json.loads(RUNNER.invoke(app, ["trial", "--show", "@last", "--json"]).stdout)
    assert found["trial"]["verdict"] == "adopt"
    assert len(json.loads(RUNNER.invoke(app, ["runs", "list", "--trial", "@last", "--json"]).stdout)["runs"]) == 16


def test_what_last_means_is_written_down_as_the_group_that_it_was(tmp_path, monkeypatch):
    from rlclinic.launch import local

    pretend(monkeypatch, lambda config: None)
    group = Store(tmp_path).create_group([CONTROL.model_copy(update={"seed": seed}) for seed in (0, 1)])
    local.start([[run.path for run in group.runs]]).wait()
    asked = TrialRequest(targets=["@last"], changes=["learning_rate=1e-3"], runs_dir=tmp_path)
    plan = plan_trial(asked).plan
    assert plan.context["control"] == f"{group.id}'s config"
    assert plan.context["typed"].startswith(f"rlclinic trial {group.id} ")


def test_a_command_is_tried_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = Path("train.py")
    script.write_text(
        "import sys\nseed, rate = int(sys.argv[1]), float(sys.argv[2])\nprint('total_timesteps,val/roll/ep_rew_mean')\n"
        "for row in range(1, 11):\n    print(f'{100 * row},{min(500.0, row * 100 * rate + seed % 7)}')\n"
    )
    command = f"{sys.executable} train.py {{seed}} {{rate}} > {{out}}/log.csv"
    words = ["trial", "--run", command, "--arm", "rate=0.4", "--arm", "rate=3", "--threshold", "450", "--per-look", "5", "--looks", "1"]
    result = RUNNER.invoke(app, [*words, "--timeout", "50"])
    assert result.exit_code == 0, result.output
    assert "ADOPT rate-3" in result.stdout
    refused = RUNNER.invoke(app, ["adopt", "@last", "--as", "CartPole-v1:mine"])
    assert refused.exit_code == 2
    assert "your own command" in refused.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["trial", "--rx", "one"], 2, "numbers of prescriptions"),
        (["trial", "--set", "a=1"], 3, "no group"),
        (["trial", "CartPole-v1:ppo", "--set", "nonsense=1"], 2, "is no setting"),
        (["trial", "CartPole-v1:ppo", "Acrobot-v1:ppo"], 2, "cannot be ranked together"),
        (["trial", "--resume", "tzzz"], 3, "no trial"),
        (["trial", "--run", "x", "--arm", "a=1"], 2, "{seed}"),
        (["trial", "CartPole-v1:ppo", "--set", "gamma=0.9", "--looks", "99"], 2, "looks"),
        (["adopt", "tzzz", "--as", "CartPole-v1:mine"], 3, "no trial"),
    ],
)
def test_what_cannot_be_done_says_what_to_type_and_has_its_exit_code(tmp_path, words, code, said):
    result = RUNNER.invoke(app, [*words, "--runs-dir", str(tmp_path)])
    assert result.exit_code == code, result.output
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_forecast_is_checked_against_what_was_seen_and_the_outcome_is_counted(tmp_path, monkeypatch):
    cause = "learning-rate-too-high"
    about = {"measure": "return", "value": 0.9, "low": 0.5, "high": 1.2, "trials": 11, "adopted": 10}
    found = run(tmp_path, monkeypatch, (None, 0.3), context={"causes": {"rx1": cause}, "forecasts": {"rx1": about}})
    effect = found.effect("rx1")
    said = trial_words.forecast_text(found, effect)
    assert said is not None
    assert said.startswith('"90 % of the gap closed [50, 120]": held (10')
    assert said.endswith(f"; recorded as own trial 12 of this change for {cause}")
    steps = found.model_copy(update={"context": {**found.context, "forecasts": {"rx1": {**about, "measure": "steps", "low": 0.8}}}})
    assert ": missed (" in str(trial_words.forecast_text(steps, effect))
    (arm,) = found.context["forecasts"]
    forecast = {**found.context["forecasts"][arm], "has_threshold": False}
    bare = found.model_copy(update={"context": {**found.context, "forecasts": {arm: forecast}}})
    assert str(trial_words.forecast_text(bare, effect)).startswith(
        "there was none: this task has no threshold to count by; recorded as own"
    )
    new = found.model_copy(update={"context": {"causes": {"rx1": cause}}})
    assert trial_words.forecast_text(new, effect) == f"there was none; recorded as the first trial of this change for {cause}"
    assert trial_words.forecast_text(found.model_copy(update={"context": {}}), effect) is None


def test_a_plan_shows_seeds_and_time_against_the_effect_as_a_table_and_as_curves():
    from rlclinic.treatment.trial import power
    from rlclinic.treatment.trial.models import Power

    plan = conduct.plan(arms.control(CONTROL), [arms.changed(CONTROL, ["learning_rate=1e-3"], "rx1")])
    table = power.plan_rows(plan, 1_000.0)
    assert [row.seeds for row in table] == [16, 32, 64, 128, 256]
    for effect in ("0.5", "0.3", "0.1"):
        chances = [row.power[effect] for row in table]
        assert chances == sorted(chances)
    assert all(row.power["0.5"] >= row.power["0.1"] for row in table)
    assert table[1].max_seconds == pytest.approx((plan.max_env_steps or 0) / 1_000.0)
    known = Power(by_effect={}, seeds_by_effect={}, seeds_for_small=1, sigma=0.4, reaching=0.9, assumed=True)
    shown, figure = trial_words.describe_power(plan, known, table)
    assert len(shown.rows) == 5
    assert figure.svg().count("<polyline") >= 4
    drawn = "\n".join(compare_plot.lines(figure.drawn.bands, 0.8, line=figure.drawn.line))
    assert {band.label[0] for band in figure.drawn.bands} == set("abcd")  # "1.5 SD" and "1 SD" must not be drawn alike
    assert all(letter in drawn for letter in "bcd")
    assert " power" in drawn
