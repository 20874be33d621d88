"""Options and arguments: those of a request are made from its fields; a few belong to the command line itself.

A command whose options come from a request names its module, which is imported when they are needed and not before:

    @command(app, requests="treat.requests")
    def trial(request: "TrialRequest", dry_run: DryRun = False) -> None:
"""

import enum
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from rlclinic.ops.request import Request, RequestField

Made = TypeVar("Made", bound="Request")


def complete_run(incomplete: str) -> list[str]:
    """Selectors, and the ids of the newest runs and groups."""
    import os

    from rlclinic.ops.runs.listing import complete_selector

    return complete_selector(incomplete, Path(os.environ.get("RLCLINIC_RUNS", "runs")))


def complete_reference(incomplete: str) -> list[str]:
    """Environments; after a colon, their variants."""
    from rlclinic.ops.runs.environments import complete_reference

    return complete_reference(incomplete)


def read_steps(text: str | int) -> int:
    """A number of env steps as it is typed: 100000, 1e5, 100k."""
    from rlclinic.ops import request

    try:
        return request.read_steps(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def read_number(whole: bool, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    """What an option that is a number needs: 60k and 1e3 are understood by every one of them, and what is refused is said in our words."""

    def number(text: str | float) -> int | float:
        from rlclinic.ops import request

        try:
            return request.read_number(text, whole, least, most)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return {"parser": number, "metavar": "<int>" if whole else "<float>", "min": least, "max": most}


def follow_workers(ctx: typer.Context, given: Path) -> Path:
    """Show in the folder what workers do that share no disk with it; a command that stays goes on with that."""
    if all(os.environ.get(variable) for variable in ("RLCLINIC_DB", "RLCLINIC_ARTIFACTS")) and not ctx.resilient_parsing:
        from rlclinic.ops.jobs import remote
        from rlclinic.runs.store import Store

        said = set[str]()
        remote.follow_or_say(Store(given), said)
        remote.keep_following(Store(given), said)
    return given


OwnRunsDir = Annotated[Path, typer.Option("--runs-dir", envvar="RLCLINIC_RUNS", help="Folder that holds the runs.", show_default=True)]
RunsDir = Annotated[
    Path,
    typer.Option("--runs-dir", envvar="RLCLINIC_RUNS", help="Folder that holds the runs.", show_default=True, callback=follow_workers),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; results only.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "--override", metavar="KEY=VALUE", help="Change a setting: --set algo.learning_rate=1e-4. Repeatable."),
]
Selector = Annotated[
    str,
    typer.Argument(help="A run or group: id, unique prefix, @last, @last~1, @best, @running.", autocompletion=complete_run),
]
Steps = Annotated[int | None, typer.Option(parser=read_steps, metavar="N", help="Budget in env steps; 1e6 and 100k are understood.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or auto.")]
Jobs = Annotated[int | None, typer.Option(**read_number(True, 1), help="Processes at a time (one per core).")]


def choose_place(given: str | None) -> str | None:
    """Take note of where cohorts are to train, for all that this command starts."""
    if given is not None:
        from rlclinic.launch import places

        places.choose(given)
    return given


On = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE", help="Where to train: local, ray, ray://HOST:10001, ray?gpus=0.25; else RLCLINIC_ON.", callback=choose_place
    ),
]


def choose_database(given: str | None) -> str | None:
    """Take note of where the queue of jobs is, for all that this command asks and starts."""
    if given is not None:
        from rlclinic.runs.database import connections

        connections.choose(given)
    return given


Db = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The queue of jobs: postgresql://USER@HOST/DATABASE, or sqlite; else RLCLINIC_DB.",
        callback=choose_database,
        # Before whatever asks the queue, wherever it stands on the line.
        is_eager=True,
    ),
]


def check_detached(on: str | None, jobs: int | None = None) -> None:
    """UsageError where a job in the background could not keep what was asked of this process."""
    from rlclinic.errors import UsageError
    from rlclinic.runs.database import connections

    if connections.shared() and on is not None:
        raise UsageError(
            f"--on {on} with --detach, and {connections.VARIABLE} names a queue: its jobs train where their workers do.\n"
            "  Nothing was started.\n  Say it to the workers (rlclinic worker --on ray), or leave out one of the two"
        )
    if jobs is not None:
        raise UsageError(
            f"--jobs {jobs} with --detach: a job in the background takes the cores that are free when its turn comes.\n"
            "  Nothing was started.\n  Leave out one of the two"
        )


Detach = Annotated[bool, typer.Option("--detach", help="As a job in the background; with --db for whichever worker has room.")]


def choose_artifacts(given: str | None) -> str | None:
    """Take note of where runs are put, for all that this command starts."""
    if given is not None:
        from rlclinic.runs.object_store import artifacts

        artifacts.choose(given)
    return given


Artifacts = Annotated[
    str | None,
    typer.Option(
        "--artifacts",
        metavar="URL",
        help="Put runs there, too: s3://BUCKET/PREFIX; else RLCLINIC_ARTIFACTS.",
        callback=choose_artifacts,
        is_eager=True,
    ),
]
FromArtifacts = Annotated[str | None, typer.Option("--artifacts", metavar="URL", help="Read runs from there: s3://BUCKET/PREFIX.")]


def read_artifacts(request: "Made", given: str | None, target: str | None = None, *, checkpoints: bool = False) -> "Made":
    """The request about what lies in an object store, where one is named."""
    if given is None:
        return request
    from rlclinic.runs.object_store import artifacts

    return request.model_copy(update={"runs_dir": artifacts.open_mirror(given, target, checkpoints=checkpoints)})


RequireThreshold = Annotated[bool, typer.Option("--require-threshold", help="Exit with 4 if the threshold is missed.")]


# ── options from requests ──


class RequestCommand(TyperCommand):
    """A command whose options are made from its requests when they are first looked at: `rlclinic --help` imports no model."""

    _made: TyperCommand | None = None

    def _build(self) -> TyperCommand:
        if self._made is None:
            whole = typer.Typer(add_completion=False)
            models = vars(import_module(f"rlclinic.ops.{self._stub.requests}"))
            whole.command()(expand(self._stub.handler, models))
            self._made = typer.main.get_command(whole)  # type: ignore[assignment]
        return self._made  # type: ignore[return-value]

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().make_context(*args, **kwargs)
        except Exception as error:  # typer's own class of it is not public
            if isinstance(message := getattr(error, "message", None), str):
                error.message = message.removeprefix("Value error, ")  # type: ignore[attr-defined]
            raise

    @property
    def params(self) -> list[Any]:
        return self._build().params

    @params.setter
    def params(self, given: Any) -> None:
        pass

    @property
    def callback(self) -> Any:
        return self._build().callback

    @callback.setter
    def callback(self, given: Any) -> None:
        self._stub = given.__wrapped__


def command(
    app: typer.Typer, name: str | None = None, *, requests: str, cls: type[RequestCommand] = RequestCommand
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command whose handler takes requests of rlclinic.ops.<requests>, each an argument by the name of its class."""

    def add(handler: Callable[..., None]) -> Callable[..., None]:
        def stub() -> None:
            pass

        stub.__name__, stub.__doc__ = handler.__name__, handler.__doc__
        stub.handler, stub.requests = handler, requests  # type: ignore[attr-defined]
        app.command(name, cls=cls)(stub)
        return handler

    return add


def expand(handler: Callable[..., None], models: Mapping[str, Any]) -> Callable[..., None]:
    """The handler with options in place of its requests, which it names by a class or, imported late, by its name in `models`."""
    from rlclinic.ops.request import Request

    signature = inspect.signature(handler)
    parameters: list[inspect.Parameter] = []
    taken: dict[str, type[Request]] = {}
    for parameter in signature.parameters.values():
        model = models.get(parameter.annotation) if isinstance(parameter.annotation, str) else parameter.annotation
        if isinstance(model, type) and issubclass(model, Request):
            taken[parameter.name] = model
            parameters += parameters_of(model)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    if any(parameter.name == "runs_dir" for parameter in parameters):
        raise TypeError(f"{handler.__name__}: runs_dir is its request's")
    if any(model.about_store for model in taken.values()):
        parameters.append(inspect.Parameter("runs_dir", inspect.Parameter.KEYWORD_ONLY, default=Path("runs"), annotation=RunsDir))
    parameters.sort(key=lambda each: each.name in ("runs_dir", "as_json"))

    @functools.wraps(handler)
    def run(**given: Any) -> None:
        runs_dir = given.pop("runs_dir", Path("runs"))
        made = {name: make(model, given, runs_dir) for name, model in taken.items()}
        handler(**made, **{name: value for name, value in given.items() if name in signature.parameters})

    del run.__wrapped__
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def parameters_of(model: "type[Request]") -> list[inspect.Parameter]:
    """The options and arguments of a request, in the order of its fields."""
    from rlclinic.ops.request import fields_of

    return [_parameter(field) for field in fields_of(model)]


def make(model: "type[Request]", given: dict[str, Any], runs_dir: Path) -> "Request":
    """The request that was typed; what was not is left to its defaults."""
    from pydantic import ValidationError

    from rlclinic.ops.request import fields_of, say_misfit

    asked: dict[str, Any] = {"runs_dir": runs_dir}
    for field in fields_of(model):
        value, mark = given.get(field.name), _mark(field)
        if value is None:
            continue
        if isinstance(value, enum.Enum):
            value = value.value
        try:
            asked[field.name] = value if mark.read is None else mark.read(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    try:
        return model(**asked)
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(f"--{'-'.join(map(str, first['loc'])).replace('_', '-')}: {say_misfit(first['msg'])}") from None


def _mark(field: "RequestField") -> Any:
    from rlclinic.ops.request import Cli

    return field.mark(Cli) or Cli()


def _parameter(field: "RequestField") -> inspect.Parameter:
    from rlclinic.ops.request import UNSET

    mark = _mark(field)
    kind: Any = field.info.annotation if mark.type is None else mark.type
    default = field.default if mark.default is UNSET else mark.default
    if field.repeats:
        kind, default = kind | None, None
    if mark.steps:
        kind = int | None if default is None else int
    kind, default = _with_choices(field.name, kind, default)
    about: dict[str, Any] = {"help": mark.help or field.info.description, "metavar": mark.metavar}
    if mark.complete is not None:
        about["autocompletion"] = complete_run if mark.complete == "run" else complete_reference
    if mark.steps:
        about["parser"] = read_steps
    elif numbers := {int, float} & {kind, *get_args(kind), *(inner for part in get_args(kind) for inner in get_args(part))}:
        about |= {name: value for name, value in read_number(numbers == {int}, *_bounds(field, mark)).items() if about.get(name) is None}
    else:
        about["min"], about["max"] = _bounds(field, mark)
    if default is ...:
        default = inspect.Parameter.empty
    info = typer.Argument(**about) if mark.argument else typer.Option(*(mark.names or _names(field.name, default)), **about)
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _names(name: str, default: Any) -> tuple[str, ...]:
    flag = f"--{name.replace('_', '-')}"
    return (f"{flag}/--no-{flag[2:]}",) if default is True else (flag,)


def _bounds(field: "RequestField", mark: Any) -> tuple[float | None, float | None]:
    bounds = {key: getattr(each, key) for each in field.info.metadata for key in ("ge", "le") if hasattr(each, key)}
    return bounds.get("ge") if mark.min is None else mark.min, bounds.get("le")


def _with_choices(name: str, kind: Any, default: Any) -> tuple[Any, Any]:
    """A Literal as an enumeration, which is how choices are typed."""
    parts = get_args(kind) if get_origin(kind) is not Literal else (kind,)
    literal = next((part for part in parts if get_origin(part) is Literal), None)
    if literal is None:
        return kind, default
    choices = enum.StrEnum(name, {str(value): str(value) for value in get_args(literal)})  # type: ignore[misc]
    chosen = choices(default) if isinstance(default, str) else default
    return (choices | None if type(None) in parts else choices), chosen
