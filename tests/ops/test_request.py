"""Requests: what a field says is what every face has, and what names a file, a command or code is offered to nobody elsewhere."""

import inspect
import typing
from pathlib import Path
from typing import Any

import pytest
import typer

from rlclinic.ops.operations import OPERATIONS, Operation
from rlclinic.ops.request import UNSET, Cli, Http, Mcp, Request, fields_of, read_steps, say_misfit
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat.requests import TrialRequest
from rlclinic.serve.cli.app import app
from rlclinic.serve.http.bodies import body_of
from rlclinic.serve.mcp.tools.base import offered

MODELLED = [operation for operation in OPERATIONS if operation.model is not None]
MODELS = sorted({operation.model for operation in MODELLED if operation.model is not None}, key=lambda model: model.__name__)


def command_of(operation: Operation) -> Any:
    command: Any = typer.main.get_command(app)
    for word in (operation.cli or "").partition(" --")[0].split():  # an option may tell two operations of a command apart
        command = command.commands[word]
    return command


@pytest.mark.parametrize("operation", [each for each in MODELLED if each.cli], ids=lambda operation: operation.cli)
def test_a_command_has_an_option_for_every_field_with_its_sentence_and_its_bounds(operation: Operation) -> None:
    parameters = {parameter.name: parameter for parameter in command_of(operation).params}
    assert operation.model is not None
    for field in fields_of(operation.model):
        mark, parameter = field.mark(Cli) or Cli(), parameters[field.name]
        assert parameter.help == (mark.help or field.info.description)
        bounds = {key: getattr(each, key) for each in field.info.metadata for key in ("ge", "le") if hasattr(each, key)}
        if not mark.steps and mark.min is None:
            assert (parameter.min, parameter.max) == (bounds.get("ge"), bounds.get("le"))


@pytest.mark.parametrize("operation", MODELLED, ids=lambda operation: operation.function)
def test_an_operation_takes_its_request_or_its_fields(operation: Operation) -> None:
    parameters = inspect.signature(operation.call).parameters
    assert operation.model is not None
    if "request" in parameters:
        assert typing.get_type_hints(operation.call)["request"] is operation.model
        return
    # What an operation does not take belongs to another one that the same command does: `lint --env`, `rules --family`.
    elsewhere = {
        "lint": {"env", "env_args", "seconds", "code"},
        "explain_rule": {"family"},
        "evaluate_checkpoint": {"selector", "video", "trace", "env"},
    }
    renamed = {"remove_runs": {"runs"}, "get_guide": {"question"}, "explain_rule": {"rule"}}
    name = operation.function.rpartition(".")[2]
    fields = {field.name for field in fields_of(operation.model)} - elsewhere.get(name, set()) - renamed.get(name, set())
    assert fields <= parameters.keys() | {"run", "target", "selector"}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_explained(model: type[Request]) -> None:
    assert [field.name for field in fields_of(model) if not field.info.description] == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_nobody_elsewhere_is_offered_a_path(model: type[Request]) -> None:
    for field in fields_of(model):
        if Path in (field.info.annotation, *typing.get_args(field.info.annotation)):
            assert field.mark(Http) is None
            assert field.mark(Mcp) is None
    assert "runs_dir" not in body_of(model).model_fields


@pytest.mark.parametrize("name", ["command", "arms", "ablate"])
def test_a_trial_of_a_command_is_for_people_at_the_terminal(name: str) -> None:
    assert name not in body_of(TrialRequest).model_fields
    assert name not in {field.name for field, _ in offered(TrialRequest)}


def test_a_default_is_the_same_on_every_face_unless_a_face_says_otherwise() -> None:
    for model in MODELS:
        body = body_of(model).model_fields
        for field in fields_of(model):
            mark = field.mark(Http)
            if mark is not None and mark.default is UNSET and mark.path is None and field.default is not ...:
                assert body[mark.name or field.name].get_default(call_default_factory=True) == field.default


def test_what_a_request_would_read_is_known_before_it_is_read() -> None:
    assert TrainRequest(ref="CartPole-v1:ppo", resume="g7k2").configs == ["CartPole-v1:ppo", "g7k2"]
    assert TrialRequest().configs == ["@last"]
    assert TrialRequest(resume="t1").configs == []
    assert TrialRequest(targets=["a.yaml"], resume="t1").configs == ["a.yaml"]


@pytest.mark.parametrize(("text", "steps"), [("100000", 100_000), ("1e5", 100_000), ("100k", 100_000), ("1.5M", 1_500_000), (7, 7)])
def test_env_steps_are_read_as_people_type_them(text: str | int, steps: int) -> None:
    assert read_steps(text) == steps


@pytest.mark.parametrize("text", ["many", "0", "1.5", "-3k", "Infinity", "nan", "1e999", "9" * 400])
def test_what_is_no_number_of_env_steps_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        read_steps(text)


def test_env_steps_may_be_typed_short_in_every_face() -> None:
    assert TrainRequest(max_env_steps="60k").max_env_steps == 60_000  # type: ignore[arg-type]
    assert body_of(TrainRequest)(max_env_steps="1.5M").max_env_steps == 1_500_000
    assert TrialRequest(max_env_steps=60_000).max_env_steps == 60_000
    with pytest.raises(ValueError, match="60q"):
        TrainRequest(max_env_steps="60q")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("Input should be greater than or equal to 1", "must be at least 1"),
        ("Input should be a valid integer, unable to parse string as an integer", "must be a whole number"),
        ("Input should be 'a' or 'b'", "must be 'a' or 'b'"),
        ("Value error, '60q' is not a number", "'60q' is not a number"),
        ("List should have at least 2 items after validation, not 1", "must name at least 2"),
        ("String should have at least 1 character", "must not be empty"),
        ("Input should be a valid list", "must be a list"),
        ("anything else", "anything else"),
    ],
)
def test_misfits_are_said_in_plain_words(said: str, plain: str) -> None:
    assert say_misfit(said) == plain
