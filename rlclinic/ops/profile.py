"""Where a config's training time goes, what other settings would change, and which to take."""

from collections.abc import Callable, Sequence
from typing import Final

from rlclinic.config import Config, files, set_values
from rlclinic.errors import RlclinicError, UsageError
from rlclinic.ops.plans import check_installed
from rlclinic.ops.results import Part, Result

WORTH_IT: Final = 1.10
"""A variant is prescribed if it is faster by this factor: less is within what a busy machine does to a measurement."""
ENGINES: Final = ("compiled", "captured")


class Phase(Part):
    """A part of an iteration."""

    name: str
    seconds: float
    share: float


class Variant(Part):
    """Other settings, measured: env steps per second, and how many times the config's own."""

    changes: tuple[str, ...]
    env_steps_per_second: float | None
    factor: float | None
    learns_otherwise: bool
    """Whether it changes what is computed, and not only how: its result has to be tried before it is believed."""
    refused: str | None = None
    """Why it could not be measured."""


class Profile(Result):
    """Where an iteration's time goes."""

    config: str
    device: str
    engine: str
    members: int
    env_steps_per_iteration: int
    env_steps_per_second: float
    iteration_seconds: float
    phases: tuple[Phase, ...]
    """Of the eager engine; the compiled and captured engines have no seams to look into."""
    gpu_busy: float | None
    memory_mib: float
    variants: tuple[Variant, ...]
    prescription: tuple[str, ...]
    """The settings of the fastest variant that computes the same; empty if none is worth it."""
    note: str


def profile(
    ref: str,
    changes: Sequence[str] = (),
    *,
    members: int = 1,
    seconds: float = 1.5,
    compiling: bool = False,
    watch: Callable[[str], None] | None = None,
) -> Profile:
    """Measure a few iterations of a config, and of its variants. compiling: also engines that must be compiled first."""
    config = files.load(ref, changes).config
    if config.algo.loop != "on_policy":
        raise UsageError(
            f"profile looks into ppo, a2c and reinforce; {config.algo.name} has another loop.\n"
            "  There would be nothing to show.\n"
            "  See where its time goes in a run's own columns: rlclinic runs metrics RUN --names time"
        )
    check_installed()
    from rlclinic.training import profiling

    tell = watch or (lambda _: None)
    tell("as it is")
    plain = profiling.measure(config, members, seconds, apart=False)
    tell("by phase")
    eager = config.model_copy(update={"run": config.run.model_copy(update={"engine": "eager"})})
    apart = profiling.measure(eager, members, seconds, apart=True)
    total = sum(apart.phases.values())
    variants = tuple(
        _measured(config, each, members, seconds, plain.env_steps_per_second, tell) for each in alternatives(config, compiling)
    )
    best = max((each for each in variants if not each.learns_otherwise), key=lambda each: each.factor or 0.0, default=None)
    worth = best is not None and (best.factor or 0.0) >= WORTH_IT
    return Profile(
        config=ref,
        device=config.run.device,
        engine=plain.engine,
        members=members,
        env_steps_per_iteration=config.rollout_size,
        env_steps_per_second=plain.env_steps_per_second,
        iteration_seconds=plain.iteration_seconds,
        phases=tuple(Phase(name=name, seconds=value, share=value / total) for name, value in apart.phases.items()),
        gpu_busy=plain.gpu_busy,
        memory_mib=plain.memory_mib,
        variants=variants,
        prescription=best.changes if worth and best is not None else (),
        note=_note(worth, compiling, variants),
    )


def alternatives(config: Config, compiling: bool) -> list[tuple[tuple[str, ...], bool]]:
    """Changes to measure, and whether each changes what is computed: more envs, longer rollouts, larger batches, another engine."""
    env, algo, rollout = config.env.n_envs, config.algo, config.rollout_size
    steps: int = algo.n_steps  # type: ignore[union-attr]
    found: list[tuple[tuple[str, ...], bool]] = []
    if steps % 2 == 0 and steps > 2:
        found.append(((f"env.n_envs={env * 2}", f"algo.n_steps={steps // 2}"), True))
    found.append(((f"env.n_envs={env * 4}", *_batch(config, 4)), True))
    found.append(((f"algo.n_steps={steps * 2}", *_batch(config, 2)), True))
    if config.batch_rows < rollout:
        found.append(((f"algo.batch_size={rollout}",), True))
    engines = [name for name in ("eager", *(ENGINES if compiling else ())) if name != config.run.engine]
    found += [((f"run.engine={name}",), False) for name in engines if name != "captured" or config.run.device != "cpu"]
    return found


def _batch(config: Config, times: int) -> tuple[str, ...]:
    """The minibatch grown with the rollout, where the algorithm has one: as many gradient steps as before."""
    return (f"algo.batch_size={config.batch_rows * times}",) if "batch_size" in type(config.algo).model_fields else ()


def _measured(
    config: Config, alternative: tuple[tuple[str, ...], bool], members: int, seconds: float, own: float, tell: Callable[[str], None]
) -> Variant:
    from rlclinic.training import profiling

    changes, otherwise = alternative
    tell(" ".join(changes))
    try:
        speed = profiling.measure(set_values(config, list(changes)), members, seconds, apart=False).env_steps_per_second
    except RlclinicError as error:
        why = str(error).partition("\n")[0]
        return Variant(changes=changes, env_steps_per_second=None, factor=None, learns_otherwise=otherwise, refused=why)
    return Variant(changes=changes, env_steps_per_second=speed, factor=speed / own, learns_otherwise=otherwise)


def _note(worth: bool, compiling: bool, variants: Sequence[Variant]) -> str:
    bold = max((each.factor or 0.0 for each in variants if each.learns_otherwise), default=0.0)
    if worth:
        return "the settings above compute the same, faster"
    if bold >= WORTH_IT:
        return "the faster ones change what is learned: try them before you believe them (rlclinic trial)"
    return "nothing measured is faster" + ("" if compiling else "; --compile measures the compiled engines too")
