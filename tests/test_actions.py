"""A next action is a command for people, a call for agents, and text in JSON."""

import copy
import json
import pickle

import pytest
from pydantic import BaseModel, TypeAdapter

from rlclinic.actions import Action, Argument, Change, TextPart
from rlclinic.config import validation
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.serve.http import problems
from rlclinic.serve.mcp import replies


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Action("runs list"), "rlclinic runs list"),
        (Action("trial", "g7k2", rx=1), "rlclinic trial g7k2 --rx 1"),
        (Action("train", resume="g7k2", max_env_steps=2000), "rlclinic train --resume g7k2 --max-env-steps 2000"),
        (Action("train", "g", set=["a=1", "b={start: 1}"]), "rlclinic train g --set a=1 --set 'b={start: 1}'"),
        (Action("adopt", "t1", as_="CartPole-v1:mine", force=True), "rlclinic adopt t1 --as CartPole-v1:mine --force"),
        (Action("compare", "@last~1", "@last", runs_dir=None, full=False), "rlclinic compare @last~1 @last"),
        (Action("stop", "g").then(Action("diagnose", "g")), "rlclinic stop g && rlclinic diagnose g"),
    ],
)
def test_an_action_reads_as_the_command_that_does_it(action: Action, text: str) -> None:
    assert action == text


def test_an_action_keeps_its_parts_through_a_model_and_a_copy_and_is_text_in_json() -> None:
    class Report(BaseModel):
        next: list[Action]

    found = Report(next=[Action("trial", "g7k2", rx=1)])
    assert (found.next[0].command, found.next[0].names, found.next[0].options) == ("trial", ("g7k2",), {"rx": 1})
    assert json.loads(found.model_dump_json()) == {"next": ["rlclinic trial g7k2 --rx 1"]}
    assert copy.deepcopy(found.next[0]).options == {"rx": 1}
    assert Report.model_validate_json(found.model_dump_json()).next == found.next
    assert Report.model_json_schema()["properties"]["next"]["items"] == {"type": "string"}
    with pytest.raises(ValueError, match="text"):
        TypeAdapter(Action).validate_python(3)


def test_an_error_is_its_whole_text_and_still_knows_what_to_do_next() -> None:
    error = NotFound("no run 'x'.\n  See what there is: ", Action("runs list"))
    assert str(error) == "no run 'x'.\n  See what there is: rlclinic runs list"
    assert [part for part in error.parts if isinstance(part, Action)] == [Action("runs list")]


# ── settings to change, and arguments of the call at hand ──

SAID = [
    # what is meant, what people type, what an agent writes, what a client sends
    (
        Change("env.step_timeout", 60),
        "--set env.step_timeout=60",
        'overrides={"env.step_timeout": 60}',
        '"changes": ["env.step_timeout=60"]',
    ),
    (Change("algo.value_lr", None), "--set algo.value_lr=none", 'overrides={"algo.value_lr": null}', '"changes": ["algo.value_lr=none"]'),
    (Change("net.shared", False), "--set net.shared=false", 'overrides={"net.shared": false}', '"changes": ["net.shared=false"]'),
    (Change("spec.threshold", 475.0), "--set spec.threshold=475", 'overrides={"spec.threshold": 475}', '"changes": ["spec.threshold=475"]'),
    (Change("algo.name", "dqn"), "--set algo.name=dqn", 'overrides={"algo.name": "dqn"}', '"changes": ["algo.name=dqn"]'),
    (
        Change("env.wrappers", [{"id": "ClipAction"}]),
        """--set 'env.wrappers=[{"id": "ClipAction"}]'""",
        'overrides={"env.wrappers": [{"id": "ClipAction"}]}',
        r'"changes": ["env.wrappers=[{\"id\": \"ClipAction\"}]"]',
    ),
    (
        Change("algo.name", "sac").also("algo.tau", "VALUE"),
        "--set algo.name=sac --set algo.tau=VALUE",
        'overrides={"algo.name": "sac", "algo.tau": "VALUE"}',
        '"changes": ["algo.name=sac", "algo.tau=VALUE"]',
    ),
    (Argument("per_look", 8), "--per-look 8", "per_look=8", '"per_look": 8'),
    (Argument("set"), "--set", "overrides", '"changes"'),
    (Argument("for", "return"), "--for return", 'outcome="return"', '"outcome": "return"'),
    (Argument("envs", ["A-v1", "B-v1"]), "--envs A-v1,B-v1", 'envs=["A-v1", "B-v1"]', '"envs": ["A-v1", "B-v1"]'),
    (Change("run.device", "cpu", option="device"), "--device cpu", 'overrides={"run.device": "cpu"}', '"changes": ["run.device=cpu"]'),
    (Argument("map", "step=COLUMN"), "--map step=COLUMN", "--map step=COLUMN", "--map step=COLUMN"),  # only people say it
]


@pytest.mark.parametrize(("part", "typed", "call", "body"), SAID)
def test_each_face_says_a_setting_and_an_argument_in_its_own_words(part: TextPart, typed: str, call: str, body: str) -> None:
    error = UsageError("this cannot be.\n  Try: ", part, ", or leave it")
    assert str(error) == f"this cannot be.\n  Try: {typed}, or leave it"
    assert replies.describe_error(*error.parts) == f"this cannot be.\n  Try: {call}, or leave it"
    assert json.loads(problems.of(error).body)["detail"] == f"this cannot be.\n  Try: {body}, or leave it"


@pytest.mark.parametrize("part", [Action("trial", "g7k2", rx=1), SAID[5][0], SAID[7][0]])
def test_a_part_crosses_processes_whole(part: TextPart) -> None:
    back = pickle.loads(pickle.dumps(UsageError("Try: ", part))).parts[1]  # noqa: S301
    assert (back, type(back), vars(back)) == (part, type(part), vars(part))


def test_what_pydantic_finds_keeps_its_changes_as_data() -> None:
    record = {"env": {"id": "CartPole-v1", "workers": 9}, "algo": {"name": "ppo", "gamma": 2}, "net": {"encoder": "conv2"}}
    with pytest.raises(ConfigError, match="3 settings are wrong") as caught:
        validation.validate(record)
    changes = [part.changes for part in caught.value.parts if isinstance(part, Change)]
    assert changes == [{"env.workers": "8"}, {"algo.gamma": "0.99"}, {"net.encoder": "conv"}]
    assert "--set" not in replies.describe_error(*caught.value.parts)
