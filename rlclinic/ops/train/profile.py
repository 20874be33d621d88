"""Where a config's training time goes, what other settings would change, and which to take."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.config import Config, files, set_values
from rlclinic.errors import ConfigError, RlclinicError, UsageError
from rlclinic.ops.train.machine import check_engine, usable_cores
from rlclinic.ops.train.plan import check_installed, engine_on
from rlclinic.report.models import Result, ResultPart

if TYPE_CHECKING:
    from rlclinic.training.profiling import Measured

WORTH_IT: Final = 1.10
"""A variant is prescribed if it is faster by this factor: less is within what a busy machine does to a measurement."""
BUSY: Final = 0.85
"""Below this share of a core, something else was running."""
THREADED: Final = 256
"""Units of a layer from which it is worth measuring what a second thread does; below, threads only wait for each other."""
LONGEST_ROLLOUT: Final = 4096
"""Env steps of an iteration up to which it is measured as it is."""
ENGINES: Final = ("compiled", "captured")


class Phase(ResultPart):
    """A part of an iteration."""

    name: str
    what: str
    seconds: float
    share: float


class Variant(ResultPart):
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
    asked: tuple[str, ...]
    """Settings that were given beside it."""
    device: str
    engine: str
    why: str
    """Why this engine."""
    members: int
    env_steps_per_iteration: int
    env_steps_per_second: float
    iteration_seconds: float
    phases: tuple[Phase, ...]
    """Of the eager engine; the compiled and captured engines have no seams to look into."""
    cpu_busy: float
    """Processor time over wall time, of this process."""
    gpu_busy: float | None
    memory_mib: float
    variants: tuple[Variant, ...]
    prescription: tuple[str, ...]
    """The settings of the fastest variant that computes the same; empty if none is worth it."""
    trial: tuple[str, ...]
    """The settings of the fastest variant that learns otherwise, where it is faster; to be tried before it is believed."""
    note: str


class Alternative(NamedTuple):
    """Settings to measure."""

    changes: tuple[str, ...]
    learns_otherwise: bool
    elsewhere: bool = False
    """Whether other processes or threads do some of the work, so that only the wall clock tells."""


def profile(
    ref: str,
    changes: Sequence[str] = (),
    *,
    device: str | None = None,
    members: int = 1,
    seconds: float = 1.5,
    compiling: bool = False,
    watch: Callable[[str], None] | None = None,
) -> Profile:
    """Measure a few iterations of a config, and of its variants. compiling: also engines that must be compiled first."""
    flags = {"run.device": device, "run.engine": engine_on(device, changes)}
    asked = (*changes, *(f"{key}={value}" for key, value in flags.items() if value is not None))
    config, shorter = shortened(files.load(ref, asked).config)
    if config.algo.loop == "imitation":
        raise UsageError(
            f"{config.algo.name} waits for an expert most of the time, and asks it in every round.\n"
            "  Measuring would take its time, and say nothing about the algorithm.\n  Its rows have the times of each phase: ",
            Action("runs metrics", "@last"),
        )
    trust.approve(*trust.names_in(config.env))
    check_installed()
    check_engine(config)
    from rlclinic.training import profiling, stopwatch

    tell = watch or (lambda _: None)
    tell("as it is")
    plain = profiling.measure(config, members, seconds, busy=True)
    tell("by phase")
    eager = config.model_copy(update={"run": config.run.model_copy(update={"engine": "eager"})})
    apart = profiling.measure(eager, members, seconds, apart=True)
    total = sum(apart.phases.values())
    variants = tuple(
        _measured(config, alternative, members, seconds, plain, tell)
        for alternative in alternatives(config, plain.engine, compiling, usable_cores())
    )
    same, bold = (_best([variant for variant in variants if variant.learns_otherwise == otherwise]) for otherwise in (False, True))
    return Profile(
        config=ref,
        asked=asked,
        device=plain.device,
        engine=plain.engine,
        why=plain.why,
        members=members,
        env_steps_per_iteration=plain.env_steps_per_iteration,
        env_steps_per_second=plain.env_steps_per_second,
        iteration_seconds=plain.iteration_seconds,
        phases=tuple(
            Phase(name=name, what=stopwatch.PHASES[name], seconds=value, share=value / total) for name, value in apart.phases.items()
        ),
        cpu_busy=plain.cpu_busy,
        gpu_busy=plain.gpu_busy,
        memory_mib=plain.memory_mib,
        variants=variants,
        prescription=same,
        trial=bold,
        note="; ".join([*shorter, _note(same, bold, compiling)]),
    )


def shortened(config: Config) -> tuple[Config, list[str]]:
    """A config whose iterations take seconds, not minutes: its phases have the same shares in shorter rollouts. And a remark."""
    asked: int | None = getattr(config.algo, "n_steps", None)
    while asked is not None and config.rollout_size > LONGEST_ROLLOUT:
        try:
            config = set_values(config, [f"algo.n_steps={config.algo.n_steps // 2}"])  # type: ignore[union-attr]
        except ConfigError:
            break  # a minibatch would no longer fit
    now = getattr(config.algo, "n_steps", None)
    return config, [] if now == asked else [f"measured with algo.n_steps={now} in place of {asked}, for shorter iterations"]


def _best(variants: Sequence[Variant]) -> tuple[str, ...]:
    """The settings of the fastest of these, if it is worth it."""
    best = max(variants, key=lambda variant: variant.factor or 0.0, default=None)
    return best.changes if best is not None and (best.factor or 0.0) >= WORTH_IT else ()


def alternatives(config: Config, engine: str, compiling: bool, cores: int) -> list[Alternative]:
    """Changes to measure: more envs, longer rollouts, larger batches, actors, another engine than this one, other cores."""
    sizes = _rollout_sizes(config) if config.algo.loop == "on_policy" else _replay_sizes(config)
    variants = [Alternative(changes, learns_otherwise=True) for changes in sizes]
    engines = [name for name in ("eager", *(ENGINES if compiling else ())) if name != engine]
    variants += [Alternative((f"run.engine={name}",), False) for name in engines if name != "captured" or config.run.device != "cpu"]
    return variants + _actors(config, cores) + _machine(config, cores)


def _rollout_sizes(config: Config) -> list[tuple[str, ...]]:
    env, rollout = config.env.n_envs, config.rollout_size
    steps: int = config.algo.n_steps  # type: ignore[union-attr]
    sizes: list[tuple[str, ...]] = []
    if steps % 2 == 0 and steps > 2:
        sizes.append((f"env.n_envs={env * 2}", f"algo.n_steps={steps // 2}"))
    sizes.append((f"env.n_envs={env * 4}", *_batch(config, 4)))
    sizes.append((f"algo.n_steps={steps * 2}", *_batch(config, 2)))
    if config.batch_rows < rollout:
        sizes.append((f"algo.batch_size={rollout}",))
    return sizes


def _replay_sizes(config: Config) -> list[tuple[str, ...]]:
    """As many gradient steps per env step as before, but for the smaller batch: in longer turns, or from more envs."""
    algo: Any = config.algo
    if config.offline:
        return [(f"algo.batch_size={max(config.batch_rows // 2, 1)}",)]
    if algo.name == "q_learning":
        return [(f"env.n_envs={config.env.n_envs * 4}",)]
    more = () if algo.gradient_steps < 0 else (f"algo.gradient_steps={algo.gradient_steps * 4}",)
    return [
        (f"env.n_envs={config.env.n_envs * 4}", *more),
        (f"algo.train_freq={algo.train_freq * 4}", *more),
        (f"algo.batch_size={max(config.batch_rows // 2, 1)}",),
    ]


def _actors(config: Config, cores: int) -> list[Alternative]:
    """Environments that are played while the learner learns: without and with more actors, or APPO in place of PPO."""
    algo: Any = config.algo
    if actors := getattr(algo, "n_actors", 0):
        return [Alternative((f"algo.n_actors={number}",), True, elsewhere=True) for number in (0, 2 * actors)]
    # What is stepped as one batch has nothing that could be waited for.
    if algo.name != "ppo" or cores < 2 or _is_native(config) or config.env.n_envs % cores:
        return []
    kept = [f"algo.{name}={getattr(algo, name)}" for name in ("n_steps", "n_epochs", "gamma", "gae_lambda")]
    rows = config.batch_rows // cores
    changes = ("algo.name=appo", f"algo.n_actors={cores}", f"env.n_envs={config.env.n_envs // cores}", *kept, f"algo.batch_size={rows}")
    return [Alternative(changes, True, elsewhere=True)]


def _machine(config: Config, cores: int) -> list[Alternative]:
    """The same arithmetic on other cores, or in shorter numbers."""
    env, variants = config.env, []
    # Environments of ours are one batch; they have nothing to share out.
    if cores > 1 and env.n_envs > 1 and not env.workers and (env.atari or not _is_native(config)):
        variants.append(Alternative((f"env.workers={min(cores, env.n_envs)}",), False, elsewhere=True))
    if cores > 1 and config.run.threads == 1 and (env.atari or max(config.net.hidden, default=0) >= THREADED):
        variants.append(Alternative((f"run.threads={cores}",), False, elsewhere=True))
    if config.run.device != "cpu" and config.run.precision == "float32":
        variants.append(Alternative(("run.precision=tf32",), True))
    if env.atari and config.net.image_precision == "float32":
        variants.append(Alternative(("net.image_precision=bfloat16",), True))
    return variants


def _is_native(config: Config) -> bool:
    from rlclinic.training.envs import native

    return config.env.native != "never" and native.objection(config.env) is None


def _batch(config: Config, times: int) -> tuple[str, ...]:
    """The minibatch grown with the rollout, where the algorithm has one: as many gradient steps as before."""
    return (f"algo.batch_size={config.batch_rows * times}",) if "batch_size" in type(config.algo).model_fields else ()


def _measured(
    config: Config, alternative: Alternative, members: int, seconds: float, own: "Measured", tell: Callable[[str], None]
) -> Variant:
    from rlclinic.training import profiling

    changes, otherwise, elsewhere = alternative
    tell(" ".join(changes))
    try:
        profile = profiling.measure(set_values(config, list(changes)), members, seconds)
    except RlclinicError as error:
        why = str(error).partition("\n")[0]
        return Variant(changes=changes, env_steps_per_second=None, factor=None, learns_otherwise=otherwise, refused=why)
    wall = profile.env_steps_per_second / own.env_steps_per_second
    # What another process took of the core meanwhile says nothing about these settings.
    alone = profile.device == own.device == "cpu" and not (elsewhere or _others_work(config))
    factor = profile.env_steps_per_core_second / own.env_steps_per_core_second if alone else wall
    return Variant(changes=changes, env_steps_per_second=profile.env_steps_per_second, factor=factor, learns_otherwise=otherwise)


def _others_work(config: Config) -> bool:
    """Whether other processes or threads do some of a config's own work."""
    return bool(config.env.workers or config.run.threads > 1 or getattr(config.algo, "n_actors", 0))


def _note(same: tuple[str, ...], bold: tuple[str, ...], compiling: bool) -> str:
    if same:
        return "rx computes the same, faster"
    if bold:
        return "the faster ones change what is learned: try them before you believe them"
    return "nothing measured is faster" + ("" if compiling else "; the compiled engines are measured too where that is asked for")
