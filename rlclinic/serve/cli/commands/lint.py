"""`rlclinic lint`: settings, an environment or a script, looked at before anything is trained."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlclinic.serve.cli import options
from rlclinic.serve.cli.commands.diagnose import FailOn, Ignore, Select, fail_on_severity


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(lint)


def lint(
    ref: Annotated[
        str | None,
        typer.Argument(
            metavar="CONFIG|RUN",
            help="CartPole-v1:ppo, a YAML file, a run, a group, or another framework's folder.",
            autocompletion=options.complete_reference,
        ),
    ] = None,
    env: Annotated[
        str | None, typer.Option(metavar="MODULE:ID", help="Look at an environment: an id, module:Id, module:Class or file.py:Class.")
    ] = None,
    env_args: Annotated[
        list[str] | None, typer.Option("--env-arg", metavar="KEY=VALUE", help="An argument for the environment. Repeatable.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=4, max=600, help="How long to look at an environment, at most.")] = 20.0,
    code: Annotated[
        str | None, typer.Option(metavar="FILE", help="Check a script, a notebook or a folder of them; nothing is run.")
    ] = None,
    changes: options.Set = None,
    fail_on: FailOn = None,
    select: Select = None,
    ignore: Ignore = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Check settings, an environment or a script before anything is trained."""
    from rlclinic.ops.diagnose import lint
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.lint import print_code, print_env, print_settings

    _refuse_mixtures(ref, env, code, bool(changes), bool(env_args))
    result: Any
    if env is not None:
        result = lint.lint_env(env, _arguments(env_args or []), seconds=seconds, select=select, ignore=ignore)
        show: Any = print_env
    elif code is not None:
        result, show = lint.lint_script(code, select=select, ignore=ignore), print_code
    else:
        result, show = lint.lint(str(ref), changes or [], runs_dir, select=select, ignore=ignore), print_settings
    console.print_json(result) if as_json else show(result)
    found = [*result.lint.findings, *(finding for each in getattr(result, "more", ()) for finding in each.findings)]
    fail_on_severity(fail_on, [finding.severity for finding in found])


def _refuse_mixtures(ref: str | None, env: str | None, code: str | None, changed: bool, arguments: bool) -> None:
    from rlclinic.errors import UsageError

    asked = [each for each in (ref, env, code) if each is not None]
    if len(asked) != 1:
        said = "nothing to look at was given" if not asked else f"{' and '.join(asked)} are different things to look at"
        raise UsageError(
            f"{said}.\n  lint looks at one: settings, an environment or a script.\n"
            "  Try: rlclinic lint CartPole-v1:ppo, rlclinic lint --env CartPole-v1, or rlclinic lint --code train.py"
        )
    if ref is not None and ref.endswith((".py", ".ipynb")):
        raise UsageError(
            f"{ref} is a script, not settings.\n  There is nothing to check in it this way.\n  Try: rlclinic lint --code {ref}"
        )
    if changed and ref is None:
        raise UsageError("--set changes settings, and none are looked at.\n  Try: without --set, or rlclinic lint CartPole-v1:ppo --set …")
    if arguments and env is None:
        raise UsageError("--env-arg is for --env.\n  Try: rlclinic lint --env FrozenLake-v1 --env-arg is_slippery=false")


def _arguments(given: list[str]) -> dict[str, Any]:
    import json

    from rlclinic.errors import UsageError

    found: dict[str, Any] = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(
                f"--env-arg {each} is no KEY=VALUE.\n  The environment would be made without it.\n  Try: --env-arg is_slippery=false"
            )
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found
