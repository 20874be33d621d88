"""A new rule is one file: from another package it is listed, fires, is ranked, explained, prescribed for and located."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

RULE = '''
"""Rules of somebody else's package."""

from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, cause, change, evidence, grade, rule
from rlclinic.diagnosis.rules import cases

DRIFT = "train/sentinel/drift"

cause(
    "drift-too-large",
    "the thing drifts",
    "fault of settings",
    doses=[{doses}],
    advice="hold the thing",
    watch=[{{"series": DRIFT, "below": 0.5, "text": "drift below 0.5"}}],
    bug=BugLocation(
        fix="hold it", check="assert held", rlclinic=("a.py", "f", "x"), sb3=("b.py", "g", "y"), cleanrl=("c.py", "h", "z"), own="the loop"
    ),
)


@rule(
    "ZZZ101",
    severity=Severity.HIGH,
    needs=[DRIFT],
    cites=["schulman2017ppo"],
    causes=["drift-too-large"],
    bad=lambda: cases.unsolved({{DRIFT: 0.9}}),
    good=[lambda: cases.unsolved({{DRIFT: 0.1}})],
)
def the_thing_drifts(case: Case) -> Iterator[Finding]:
    """The thing drifts.

    ## Why it hurts
    It should not.

    ## When it is fine
    Never.
    """
    drift = case.signal(DRIFT).median
    strength = grade(drift, 0.4, 0.8)
    if strength > 0:
        fix = change(case, "algo.gamma", 0.9, "look less far")
        text = f"a drift of {{drift:g}}"
        yield Finding(strength=strength, text=text, evidence=(evidence(DRIFT, text, drift=drift),), remedies=(fix,))
'''

DOSE = '''
from rlclinic.treatment.prescription.doses import Dose, dose


@dose
def other_discount_by_hand(chart):
    """Somebody else's dose."""
    return Dose({"algo.gamma": 0.5}, "half as far")
'''

ASK = """
import json
from rlclinic.config import files
from rlclinic.diagnosis import engine, explanation, registry
from rlclinic.ops.diagnose import bug_locations, rules
from rlclinic.treatment.prescription.prescribe import make_prescriptions

config = files.load("CartPole-v1:ppo").config
each = registry.find("the-thing-drifts")
run = each.bad()
diagnosis = engine.diagnose([run])
first = diagnosis.causes[0]
print(json.dumps({
    "listed": [row.id for row in rules.list_rules("ZZZ").rules],
    "last": registry.rules()[-1].id,
    "good": [len(explanation.examine_shown(each, shown)) for shown in each.good],
    "cause": [first.id, first.kind, first.rules[0], first.probability > 0.5],
    "page": rules.explain_rule("ZZZ101").text,
    "changes": [list(rx.changes) for rx in make_prescriptions(diagnosis, [run], config)],
    "suspects": [suspect.places[0].look for suspect in bug_locations.find_suspects(diagnosis, None)],
    "watch": [watch.text for watch in diagnosis.watch],
}))
"""


def install(folder: Path, name: str, group: str, code: str) -> None:
    """A package of one module with one entry point, as pip would leave it."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\nmine = {name}\n")


def ask(folder: Path, code: str = ASK) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize(("dose", "setting"), [("shorter-steps", "algo.learning_rate"), ("other-discount-by-hand", "algo.gamma")])
def test_a_new_rule_is_one_file_and_a_new_dose_another(dose: str, setting: str, tmp_path: Path) -> None:
    install(tmp_path, "drifting_rules", "rlclinic.rules", RULE.format(doses=f'"{dose}"'))
    if dose == "other-discount-by-hand":
        install(tmp_path, "drifting_doses", "rlclinic.doses", DOSE)
    asked = ask(tmp_path)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)
    assert (found["listed"], found["last"], found["good"]) == (["ZZZ101"], "ZZZ101", [0])
    assert found["cause"] == ["drift-too-large", "fault of settings", "ZZZ101", True]
    assert "> a drift of 0.9" in found["page"]
    assert "`drift`: above 0.4, beyond doubt at 0.8" in found["page"]
    assert found["changes"][0] == [setting]
    assert found["suspects"] == ["x"]
    assert found["watch"] == ["drift below 0.5"]


def test_the_command_line_shows_the_rule_of_another_package(tmp_path: Path) -> None:
    install(tmp_path, "drifting_rules", "rlclinic.rules", RULE.format(doses='"shorter-steps"'))
    shown = ask(tmp_path, 'import sys; sys.argv = ["rlclinic", "rules", "ZZZ101"]; from rlclinic.serve.cli.app import main; main()')
    assert "ZZZ101 the-thing-drifts" in shown.stdout, shown.stderr


def test_a_rule_that_names_a_cause_that_nobody_declares_is_refused(tmp_path: Path) -> None:
    broken = RULE.format(doses="").replace('causes=["drift-too-large"]', 'causes=["drift-too-small"]')
    install(tmp_path, "drifting_rules", "rlclinic.rules", broken)
    assert "rule ZZZ101: no cause 'drift-too-small' is declared" in ask(tmp_path).stderr
