"""Putting a cohort together: members, environments, networks, and where they go on from."""

import platform
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from rlclinic.actions import Action, Change
from rlclinic.config import ADVERSARIAL, Config, value_at
from rlclinic.config.corrections import CORRECTIONS, refusal
from rlclinic.errors import ConfigError, RunError
from rlclinic.runs.export.events import EventFile
from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter
from rlclinic.training import envs, optim, replay_assembly, rows
from rlclinic.training.actors.pool import Actors
from rlclinic.training.algos import find_on_policy
from rlclinic.training.bonuses import pay
from rlclinic.training.checkpoints import files, replay_files, snapshot
from rlclinic.training.checkpoints.files import Checkpoint
from rlclinic.training.constraints import lagrangian
from rlclinic.training.curriculum import staged
from rlclinic.training.data import info_columns, recorded, replay
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.replay import Replay
from rlclinic.training.engines import select
from rlclinic.training.engines.asynchronous import Asynchronous
from rlclinic.training.engines.captured_offline import CapturedOffline
from rlclinic.training.engines.captured_replay import CapturedReplay
from rlclinic.training.engines.eager import Eager, Engine
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.envs.wrappers import Reweighted
from rlclinic.training.fast import twins
from rlclinic.training.imitation import adversarial
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.kinds import AnyLearner, AnyPlan
from rlclinic.training.loops.on_policy import Learner, Plan, Position
from rlclinic.training.maths import normalize
from rlclinic.training.members import Member, active_mask
from rlclinic.training.nets import fitting, mlp
from rlclinic.training.parallel import calibration
from rlclinic.training.parallel import engine as parallel
from rlclinic.training.parallel.engine import DataParallel
from rlclinic.training.parallel.spread_env import SpreadEnv
from rlclinic.training.sentinels import random_policy

if TYPE_CHECKING:
    from rlclinic.training.envs.stepping import Potentials
    from rlclinic.training.imitation.iteration import Asking

Factory = Callable[..., Any]
SAME_TRANSITIONS: Final = frozenset(
    {"n_envs", "max_episode_steps", "normalize_obs", "normalize_reward", "clip_obs", "clip_reward", "noop_max", "action_mask"}
    | {"native", "workers", "step_timeout", "log_info", "log_terms"}
)
"""Settings of an environment that change nothing of a single stored transition: those are kept raw."""


@dataclass
class Cohort:
    """M runs in training: everything that the loop reads and replaces."""

    members: list[Member]
    plan: AnyPlan
    """The loop's own: what stays the same all run."""
    learner: AnyLearner
    """The loop's own: what learning changes."""
    env: VecEnv
    position: Position
    episodes: Episodes
    seed: Tensor
    """[M, 1, 1]"""
    device: torch.device
    engine: Engine | CapturedReplay | CapturedOffline = field(default_factory=Eager)
    engine_why: str = "run.engine=eager"
    iteration: int = 0
    env_steps: int = 0
    eval_env: VecEnv | None = None
    tasks_env: VecEnv | None = None
    """Every task of a curriculum side by side, for evaluations."""
    memory: Replay | None = None
    """What is remembered, by algorithms that learn from a replay."""
    data: Recorded | None = None
    """What was recorded, for algorithms that learn from that alone."""
    asking: "Asking | None" = None
    """The expert and what it has said, for algorithms that ask one; from the first iteration on."""
    refill_until: int = 0
    """The env step up to which nothing is learned, because a replay that was lost has to fill up again."""
    factory: Factory | None = None
    """What makes the environments, where they are the user's own objects."""
    refused: list[RunError] = field(default_factory=list)
    """Why runs that were meant to train along do not: their folder is somebody else's, or takes no writing."""
    corrections: list[str] = field(default_factory=list)
    """The corrections of the trainer that these runs are computed by."""
    gone: list[Member] = field(default_factory=list)
    """Members that had left when the others moved together (see compaction)."""
    _going: tuple[list[bool], Tensor] | None = None

    @property
    def config(self) -> Config:
        """The first member's: for what is equal in a cohort."""
        return self.members[0].config

    @property
    def is_large(self) -> bool:
        """Whether folders and files must be spared: so many members that writing would take longer than training."""
        return len(self.everyone) > rows.LARGE

    @property
    def everyone(self) -> list[Member]:
        """All members, also those that have left."""
        return [*self.members, *self.gone]

    def mask(self) -> Tensor:
        """[M, 1]: who still trains."""
        going = [member.active for member in self.members]
        if self._going is None or self._going[0] != going:
            self._going = going, active_mask(self.members, self.device)
        return self._going[1]

    def whole_learner(self) -> AnyLearner:
        """The learner with everything that a checkpoint holds, also where ranks keep a share of it each."""
        return parallel.whole_learner(self.env, self.learner) if isinstance(self.env, SpreadEnv) else self.learner  # type: ignore[arg-type]

    def retire(self) -> None:
        """Step no environment of a member that has left: what it would collect teaches nobody."""
        gone = [index for index, member in enumerate(self.members) if not member.active]
        for env in (self.env, self.eval_env, self.tasks_env):
            if gone and env is not None:
                env.retire(gone)


def device_of(config: Config) -> torch.device:
    """Where to compute; asking for a GPU that is not there is an error, not a slow run."""
    wanted = config.run.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "run.device=cuda, but PyTorch finds no CUDA device.\n  Nothing could be computed.\n  Try: ",
            Change("run.device", "cpu", option="device"),
            ", or: ",
            Action("doctor"),
        )
    return torch.device("cuda" if wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available()) else "cpu")


class Start(NamedTuple):
    """Where a run goes on from."""

    found: Checkpoint | None
    how: str
    """new, resume, fork, extend or init"""
    messages: list[str]
    config: Config | None = None
    """What the run that wrote the checkpoint was trained with."""
    parent: str = ""
    """The id of that run."""
    again: bool = False
    """Whether it was started before and ended without a checkpoint: its rows are written anew."""

    @property
    def goes_on(self) -> bool:
        """Whether it continues what was learned before, and so keeps the meaning that it was learned under."""
        return self.how in ("resume", "fork", "extend")


def load(run: Run, *, resume: bool) -> Start:
    """Find the checkpoint that a run starts from. A resume of a run that has none starts it again as it started then."""
    if resume and files.steps(run.path):
        found, passed = snapshot.of_run(run.path, None)
        return Start(found, "resume", passed, run.config, run.id)
    messages = ["killed before its first checkpoint: it starts again"] if resume else []
    if run.parent is None:
        return Start(None, "new", messages, again=resume)
    parent, _, step = run.parent.rpartition("@")
    source = Run(run.path.parent / parent)
    found, passed = snapshot.of_run(source.path, int(step))
    return Start(found, str(run.record.get("start", "fork")), messages + passed, source.config, parent, again=resume)


def assemble(together: Sequence[tuple[Run, Start]], factory: Factory | None = None) -> Cohort:
    """A cohort ready to train, of runs of one shape that start from the same step; RunError if none of them can be written to."""
    with ExitStack() as undo:
        # Whatever fails in here, no lock and no env worker may stay behind.
        members, starts, refused = _open(together, undo, factory)
        config = members[0].config
        device = device_of(config)
        torch.backends.cudnn.allow_tf32 = config.run.precision == "tf32"  # PyTorch's own default rounds convolutions to ten bits
        seeds = [member.run.seed for member in members]
        env = make_env(config, seeds, str(device), factory, [member.config.env.term_weights for member in members])
        undo.callback(env.close)
        corrections = _corrections(members, starts[0], env)
        if isinstance(env, Actors):
            env.corrections = tuple(corrections)
        plan = plan_for(config, env, corrections)
        choice = select.choose(config, plan, env, len(members), device, select.recorded(members[0].run, starts[0].how))
        plan = with_engine(plan, choice.kind)
        if isinstance(env, SpreadEnv):
            _agree_with_ranks(env, members, starts[0], corrections, choice.kind)
        if config.algo.name in ADVERSARIAL and isinstance(plan, Plan):
            plan = replace(plan, adversary=adversarial.plan(config, env, device))
            _check_data(members, config, plan.adversary.data if plan.adversary else None)
        if len(members) > rows.LARGE:
            for member in members:
                member.writer.relax(len(members))
        cohort = Cohort(
            members=members,
            engine=Asynchronous() if isinstance(env, Actors) else DataParallel() if isinstance(env, SpreadEnv) else choice.make(),
            engine_why=choice.why,
            plan=plan,
            learner=fresh_learner(plan, seeds, env.n_envs, device),
            env=env,
            position=Position(torch.empty(0)),
            episodes=Episodes(len(members), env.n_envs, config.env.clip_raw_reward),
            seed=torch.tensor(seeds, dtype=torch.int64, device=device).view(-1, 1, 1),
            device=device,
            factory=factory,
            refused=refused,
            corrections=corrections,
        )
        if config.offline:
            _give_data(cohort)
        if isinstance(plan, off_policy.Plan) and remembers(config):
            _give_memory(cohort, plan)
        _go_on(cohort, starts)
        _say_what_was_chosen(cohort, choice)
        if config.run.eval_episodes:
            cohort.eval_env = envs.make(config.env, seeds, config.run.eval_episodes, device=str(device), evaluation=True, factory=factory)
            cohort.tasks_env = staged.make_for_evaluation(config, seeds, str(device), factory)
        _compare_with_random(cohort, factory)
        undo.pop_all()
    return cohort


def make_env(
    config: Config, seeds: list[int], device: str, factory: Factory | None = None, weights: list[dict[str, float]] | None = None
) -> VecEnv:
    """What a cohort trains in: environments of this process, or actors that have their own; weights: of each member's terms."""
    if getattr(config.algo, "n_actors", 0):
        return Actors(config, seeds, device, factory)
    if config.run.data_parallel > 1:
        if factory is not None:
            raise ConfigError(
                f"run.data_parallel={config.run.data_parallel}: the environment is an object of this process.\n"
                "  Other ranks make it by themselves, so they must be able to import it.\n"
                "  Try: define it at the top level of a module, or ",
                Change("run.data_parallel", 1),
            )
        return SpreadEnv(config, seeds, torch.device(device), weights)
    return make_own_env(config, seeds, device, factory, weights)


def make_own_env(
    config: Config,
    seeds: list[int],
    device: str,
    factory: Factory | None = None,
    weights: Sequence[dict[str, float]] | None = None,
    share: slice | None = None,
) -> VecEnv:
    """Environments of this process; share: of each member's, these alone."""
    env = staged.make(config, seeds, device, factory, share)
    if weights is None or not any(weights):
        return env
    return cast("VecEnv", Reweighted(env, list(weights)))


def _agree_with_ranks(env: SpreadEnv, members: list[Member], start: Start, corrections: list[str], engine: str) -> None:
    """Have all ranks compute the same; a new run is refused where one process alone would be faster."""
    env.announce("plan", corrections=corrections, engine=engine)
    env.part.set_plan(corrections, engine)
    if start.goes_on:
        return
    config, ranks = members[0].config, members[0].config.run.data_parallel
    env.speed = speed = calibration.measure(env.part)
    told = (
        f"an iteration takes about {speed.together_seconds:.3g} s with {ranks} ranks and {speed.alone_seconds:.3g} s with one process: "
        f"{speed.speedup:.2f}x"
    )
    if speed.speedup < 1 and not config.run.allow_slower:
        raise ConfigError(
            f"run.data_parallel={ranks} would be slower than one process here: {told} (measured).\n"
            "  Ranks exchange gradients after every minibatch, which takes longer than what they save.\n  Try: ",
            Change("run.data_parallel", 1),
            ", larger minibatches or networks, or all the same: ",
            Change("run.allow_slower", True, option="force"),
        )
    for member in members:
        member.writer.log(f"data parallel: {told}")


def _corrections(members: list[Member], start: Start, env: VecEnv) -> list[str]:
    """The corrections of the trainer to compute by: those that the runs were begun with, or all where nothing was learned yet."""
    if not start.goes_on:
        return list(CORRECTIONS)
    for member in members:
        if (reason := refusal(member.run.id, member.run.corrections, member.config, skips=env.skips)) is not None:
            raise RunError(*reason)
    return sorted(members[0].run.corrections)


def remembers(config: Config) -> bool:
    """Whether what is done in the environment goes into a replay."""
    return config.algo.loop == "off_policy" or config.online_from is not None


def _give_memory(cohort: Cohort, plan: off_policy.Plan) -> None:
    """A replay, and the engine that has one inside its graph."""
    cohort.memory = replay_assembly.memory_for(plan, len(cohort.members), cohort.device)
    if plan.engine == "captured":
        compiles = select.compiles_replay(cohort.config, plan, len(cohort.members))
        cohort.engine = CapturedReplay(compiles=compiles, tf32=cohort.config.run.precision == "tf32")


def _give_data(cohort: Cohort) -> None:
    """Recorded data, and normalizers that know it: they stay as they are, and are saved with the policy."""
    plan, learner = cohort.plan, cohort.learner
    assert isinstance(plan, off_policy.Plan)
    assert isinstance(learner, off_policy.Learner)
    data = cohort.data = recorded.load(cohort.config, cohort.env, cohort.device)
    if cohort.device.type == "cuda" and data.rewards.is_cuda and cohort.config.online_from is None:
        compiles = plan.fast is not None and select.compiles_replay(cohort.config, plan, len(cohort.members))
        cohort.engine = CapturedOffline(compiles=compiles, tf32=cohort.config.run.precision == "tf32")
    _check_data(cohort.members, cohort.config, data)
    members = len(cohort.members)
    bound = torch.full((members, 1), float(data.rewards.abs().max()), device=cohort.device)
    if learner.reward_stats is not None:
        settings = cohort.config.data
        by_returns = settings is not None and settings.reward_scale == "returns"
        stats = data.return_moments(members, plan.env.clip_reward) if by_returns else None
        stats = stats or data.reward_moments([float(value_at(each.config.algo.gamma, 0, 1)) for each in cohort.members])
        bound = normalize.rewards(stats, bound.unsqueeze(-1), plan.env.clip_reward).squeeze(-1)
        learner = replace(learner, reward_stats=stats)
    if learner.obs_stats is not None:
        learner = replace(learner, obs_stats=data.moments(members))
    if hasattr(plan.algo, "prepare"):
        learner = replace(learner, nets={**learner.nets, **plan.algo.prepare(plan, learner, data)})
    cohort.learner = replace(learner, reward_bound=bound)


def _check_data(members: list[Member], config: Config, data: recorded.Recorded | None) -> None:
    """ConfigError where a run was begun on other data."""
    for member in members:
        known = (member.run.record.get("recorded") or {}).get("fingerprint")
        if data is not None and known is not None and known != data.fingerprint:
            raise ConfigError(
                f"{config.data.path if config.data else ''} is not the data that {member.run.id} was begun on: it has "
                "changed since.\n  What is learned from here on could not be told from what was learned before.\n"
                "  Put the old data back, or train anew: ",
                Action("train", member.run.id),
            )


def _say_what_was_chosen(cohort: Cohort, choice: select.Choice) -> None:
    """What follows from the image or from the machine: the log says which network and which engine it is, and why."""
    plan = cohort.plan
    chosen = [fitting.described(plan.policy) if isinstance(plan, Plan) else None]
    chosen.append(f"engine: {choice.kind} on {cohort.device} ({choice.why})")
    chosen.append(_compare_discounts(cohort))
    if choice.kind == "compiled" and isinstance(plan, Plan) and not select.is_ready(plan, len(cohort.members)):
        chosen.append("compiling for this shape of run: about a minute, once")
    _say(cohort, *(words for words in chosen if words is not None))


def _find_potentials(env: VecEnv) -> "Potentials | None":
    """What of the reward is known to be a potential."""
    found: Potentials | None = getattr(env, "potentials", None)
    return found


def _compare_discounts(cohort: Cohort) -> str | None:
    """A potential is one with the learner's own discount alone."""
    known = _find_potentials(cohort.env)
    learned = {float(gamma) for member in cohort.members if isinstance(gamma := member.config.algo.gamma, int | float)}
    if known is None or not learned - {known.gamma}:
        return None
    paid = known.gamma
    others = " and ".join(f"{gamma:g}" for gamma in sorted(learned - {paid}))
    said = f"the reward's potentials are discounted by {paid:g}, the learner discounts by {others}"
    return f"{said}: so they change what is best (Rewards(gamma=...))"


def _say(cohort: Cohort, *texts: str) -> None:
    """Into everybody's log; a disk that refuses ends one member and leaves the others."""
    for member in cohort.members:
        with member.writing(cohort.env_steps):
            for text in texts:
                member.writer.log(text)


def _compare_with_random(cohort: Cohort, factory: Factory | None) -> None:
    """Every member's random baseline: as measured when the run began, or now. Members of a cohort have the same environment."""
    for member in cohort.members:
        member.baseline = dict(member.run.record.get("random_policy") or {})
    if all("random_policy" in member.run.record for member in cohort.members):
        return
    found = random_policy.measure(cohort.config, native=cohort.env.exact, factory=factory)
    for member in cohort.members:
        member.baseline = member.baseline or found


def _open(
    together: Sequence[tuple[Run, Start]], undo: ExitStack, factory: Factory | None
) -> tuple[list[Member], list[Start], list[RunError]]:
    """Take every run's folder; one that is busy or read-only is left out, and the others train."""
    members, starts, refused = [], [], []
    terms: tuple[str, ...] | None = None
    for run, start in together:
        config = run.config
        if config.env.log_terms is None:
            known = run.record.get("reward_terms")
            if known is None and start.how != "resume":
                # Once for all members: they have the same environment.
                terms = info_columns.find_terms(config.env, factory) if terms is None else terms
                known = terms
            # A run from before terms were logged goes on without them: the columns of its table do not change.
            config = config.model_copy(update={"env": config.env.model_copy(update={"log_terms": tuple(known or ())})})
        try:
            member = _member(run, start, config)
        except RunError as error:
            refused.append(error)
            continue
        undo.callback(member.writer.close)
        members.append(member)
        starts.append(start)
    if not members:
        raise refused[0]
    return members, starts, refused


def with_engine(plan: AnyPlan, engine: str) -> AnyPlan:
    """The plan for an engine: the reference differentiates losses, whatever gradients somebody has worked out by hand."""
    if isinstance(plan, Plan):
        return replace(plan, engine=engine, fast=None if engine == "reference" else twins.find_on_policy(plan.config.name))
    fast = None if engine == "reference" else twins.find_off_policy(plan.config.name)
    nets = {name: replace(net, by_autograd=fast is None or engine == "autograd") for name, net in plan.nets.items()}
    return replace(plan, engine=engine, fast=fast, nets=nets)


def plan_for(config: Config, env: VecEnv, corrections: Collection[str] = CORRECTIONS.keys()) -> AnyPlan:
    """Algorithm, network and optimizer for a config and what its environment gives and takes; `corrections` are the run's own."""
    if config.algo.loop != "on_policy":
        return with_engine(replay_assembly.plan_for(config, env, corrections), config.run.engine)
    policy = fitting.policy_for(config, env)
    algo: Any = config.algo
    settings = (algo.optimizer, algo.adam_eps, algo.weight_decay, algo.momentum, algo.rms_decay)
    rule = optim.Optimizer(*settings, policy.layout, eps_in_root="rmsprop_as_torch" not in corrections)
    plan = Plan(
        algo=find_on_policy(algo.name),
        config=algo,
        env=fitting.settings_for(config, env),
        policy=policy,
        optimizer=rule,
        n_epochs=getattr(algo, "n_epochs", 1),
        batch_rows=config.batch_rows,
        rollout_size=config.rollout_size,
        engine=config.run.engine,
        precision=config.run.precision,
        rounding_counts="equal_advantages_are_zero" not in corrections,
        bonus=None if config.bonus is None else pay.plan(config.bonus, env, on_policy=True, corrections=corrections),
        constraint=None if config.cost is None else lagrangian.plan(config.cost, env),
    )
    return with_engine(plan, config.run.engine)


def fresh_learner(plan: AnyPlan, seeds: list[int], n_envs: int, device: torch.device | None = None) -> AnyLearner:
    """Weights as each member's seed gives them; nothing learned, nothing normalized yet."""
    if isinstance(plan, off_policy.Plan):
        return replay_assembly.fresh_learner(plan, seeds, n_envs, device)
    device = device or torch.device("cpu")
    flat = torch.cat([mlp.initialize(plan.policy, seed) for seed in seeds]).to(device)
    members = len(seeds)
    obs_stats = normalize.moments(members, plan.policy.obs_size, device) if plan.env.normalize_obs else None
    reward_stats = normalize.moments(members, 1, device) if plan.env.normalize_reward else None
    carry = torch.zeros(members, n_envs, device=device) if plan.env.normalize_reward else None
    bonus = None if plan.bonus is None else pay.fresh(plan.bonus, seeds, device)
    bonus = bonus if plan.adversary is None else adversarial.fresh(plan.adversary, seeds, device)
    constraint = None if plan.constraint is None else lagrangian.fresh(plan.constraint, seeds, device)
    return Learner(flat, optim.start(flat), obs_stats, reward_stats, carry, bonus, constraint)


def _member(run: Run, start: Start, config: Config) -> Member:
    found, how = start.found, start.how
    offset = found.state["metrics_offset"] if found is not None and how == "resume" else 0 if start.again else None
    member = Member(run, config, RunWriter(run.path, rows.columns(config), offset))
    if run.config.run.tensorboard:
        member.events = EventFile(run.path)
    for message in start.messages:
        member.writer.log(message)
    if how == "resume" or start.again:
        # By step, not as written: a change made after a resume may lie before one that is still to be replayed.
        member.interventions = sorted(run.interventions, key=lambda change: int(change["env_steps"]))
    if found is None or how == "init":
        return member
    member.best_eval, member.eval_mean, member.reached_at = (found.state[name] for name in ("best_eval", "eval_mean", "reached_at"))
    member.success_rate = found.state.get("success_rate")
    member.switch = dict(found.state.get("switch") or {})
    if how == "resume":
        member.eval_env_steps = run.status.eval_env_steps or 0
        files.mend(run.path, found)
        member.replay(found.env_steps - 1)
    # After the replay, which forgets what a changed number had become by then.
    member.adapted = dict(found.state["adapted"])
    return member


def _go_on(cohort: Cohort, starts: list[Start]) -> None:
    """Continue from checkpoints where there are any; otherwise from the beginning."""
    found, how = [start.found for start in starts if start.found is not None], starts[0].how
    if not found:
        cohort.position = Position(cohort.env.reset(), cohort.env.action_mask)
        return
    counted = cohort.config.bonus is not None and snapshot.counted_otherwise(found[0], cohort.learner)
    if how != "init" and (counted or _knew_something_else(starts[0].config, cohort.config)):
        found = [snapshot.without_bonus(each) for each in found]
        what = "of another kind, other cells, another task, or more or fewer environments"
        _say(cohort, f"{how} begins its bonus anew: what {starts[0].parent} knew of new states is {what}")
    if how != "init" and _chose_among_others(starts[0].config, cohort.config):
        found = [snapshot.without_curriculum(each) for each in found]
        _say(cohort, f"{how} begins its curriculum anew: that of {starts[0].parent} was of another kind, or chose among other tasks")
    cohort.learner = snapshot.weights(cohort.plan.policy, found, cohort.learner, optimizer=how != "init")
    if how == "init":
        cohort.position = Position(cohort.env.reset(), cohort.env.action_mask)
        _remember(cohort, starts, exact=False)
        return
    cohort.iteration, cohort.env_steps = int(found[0].state["iteration"]), found[0].env_steps
    if cohort.data is not None and cohort.memory is None:
        # Nobody has acted: there is nothing to put back.
        cohort.position = Position(cohort.env.reset(), cohort.env.action_mask)
        _say(cohort, f"{how} from gradient step {cohort.env_steps}, exactly where it was")
        return
    before = starts[0].config
    moved = before is not None and before.env.id != cohort.config.env.id
    if moved or not all(snapshot.fits(each, cohort.env) for each in found):
        cohort.learner = snapshot.begin_episodes(cohort.learner)
        cohort.position, exact = Position(cohort.env.reset(), cohort.env.action_mask), False
        if before is not None and before.curriculum is not None and staged.find(cohort.env) is not None:
            _say(cohort, f"{how} begins its curriculum anew: that of {starts[0].parent} was played in other environments, or more or fewer")
    else:
        cohort.learner, cohort.position, exact = snapshot.place(found, cohort.learner, cohort.env, cohort.episodes)
    _remember(cohort, starts, exact=exact)
    why = "they cannot be saved" if not cohort.env.exact else "they are others, or more or fewer, than before"
    unit = "gradient" if cohort.config.online_from is not None and cohort.env_steps <= cohort.config.online_from else "env"
    kind = "exactly where it was" if exact else f"with environments started anew ({why}), so not bit for bit"
    _say(cohort, f"{how} from {unit} step {cohort.env_steps}, {kind}")


def _knew_something_else(before: Config | None, now: Config) -> bool:
    """Whether the bonus that a checkpoint was written with told states apart by other means, or was of another task."""
    if before is None or before.bonus is None or now.bonus is None:
        return False
    told_apart_by = ("kind", "cells", "buckets")
    return before.env.id != now.env.id or any(getattr(before.bonus, name) != getattr(now.bonus, name) for name in told_apart_by)


def _chose_among_others(before: Config | None, now: Config) -> bool:
    """Whether a checkpoint's curriculum knew of other tasks than this config's, or knew other things of them."""
    if before is None or before.curriculum is None or now.curriculum is None:
        return False
    old, new = before.curriculum, now.curriculum
    tasks = ([task.kwargs for task in each.tasks] for each in (old, new))
    return before.env.id != now.env.id or (old.kind, old.levels) != (new.kind, new.levels) or next(tasks) != next(tasks)


def _remember(cohort: Cohort, starts: list[Start], *, exact: bool) -> None:
    """Fill the replay with what was saved of it; without that, nothing is learned until it holds as much as at the start.

    exact: the environments go on where they were, so that what is stored next continues the newest rows.
    """
    memory, how, before = cohort.memory, starts[0].how, starts[0].config
    if memory is None or before is None:
        return
    saved = [start.found.replay for start in starts if start.found is not None]
    if cohort.config.online_from is not None and (cohort.env_steps <= cohort.config.online_from or _stored_nothing(saved)):
        return  # nobody had acted yet
    reason = _other_task(before, cohort.config) or replay_files.objection(memory, saved, before.env.n_envs)
    if reason is None:
        there = [replay_files.fit(each, memory.shape, before.env.n_envs) for each in saved if each is not None]
        replay_files.put(memory, there)
        if not exact:
            replay.cut_newest(memory)
        size = max(each.size for each in saved if each is not None)
        if how == "init" or memory.size < size or before.env.n_envs != memory.shape.n_envs:
            less = "" if memory.size == size else f", the newest of {size}, as there is room for {memory.shape.rows} transitions"
            _say(cohort, f"{how} takes over {memory.size} transitions of the replay of {starts[0].parent}{less}")
        return
    text = f"the replay of {starts[0].parent} is not taken over: {reason}. It starts empty"
    if how != "init":
        config: Any = cohort.config.algo
        wanted = max(config.learning_starts, config.batch_size, cohort.config.cycle_size)
        cohort.refill_until = cohort.env_steps + wanted
        text += f", and learning waits for {wanted} env steps"
    _say(cohort, text)


def _stored_nothing(saved: list[replay_files.Remembered | None]) -> bool:
    """Whether replays were saved before the first transition."""
    return all(each is not None and not each.stored for each in saved)


def _other_task(before: Config, now: Config) -> str | None:
    """Why transitions that were stored under one config are no experience of the task of another; None where they are."""
    if before.algo.loop != now.algo.loop:
        return f"{before.algo.name} stored none"
    changed = [
        name for name in type(now.env).model_fields if name not in SAME_TRANSITIONS and getattr(before.env, name) != getattr(now.env, name)
    ]
    if changed:
        return f"its rewards and observations are those of another env.{changed[0]} ({getattr(before.env, changed[0])})"
    if before.bonus != now.bonus:
        # What was new is remembered as a part of the reward: a fork without the bonus would go on learning from it.
        paid = "without a bonus" if before.bonus is None else f"with what {before.bonus.kind} paid at coefficient {before.bonus.coef:g}"
        return f"its rewards are those {paid}"
    return None


def provenance(cohort: Cohort) -> dict[str, Any]:
    """What was decided at the start and belongs to the record: engine, versions."""
    # Asked of the installation: importing Gymnasium takes a quarter of a second, which native environments need not spend.
    versions = {"python": platform.python_version()} | {name: metadata.version(name) for name in ("torch", "numpy", "gymnasium")}
    engine = {"kind": cohort.plan.engine, "device": str(cohort.device), "dtype": "float32", "threads": torch.get_num_threads()}
    engine["why"] = cohort.engine_why
    if isinstance(cohort.env, SpreadEnv):
        engine["ranks"] = cohort.config.run.data_parallel
        if cohort.env.speed is not None:
            engine["alone_seconds"], engine["together_seconds"] = cohort.env.speed
    space = cohort.env.action
    action: dict[str, Any] = {"kind": space.kind, "sizes": list(space.sizes)}
    if space.low is not None and space.high is not None and np.isfinite([space.low, space.high]).all():
        action |= {"low": float(space.low.min()), "high": float(space.high.max())}
    data = cohort.plan.adversary.data if isinstance(cohort.plan, Plan) and cohort.plan.adversary is not None else cohort.data
    facts = {} if data is None else {"recorded": describe_data(data)}
    observed: dict[str, Any] = {"obs_shape": list(cohort.env.obs_shape), "obs_flags": _flags(cohort)}
    if (known := _find_potentials(cohort.env)) is not None:
        observed |= {"potential_gamma": known.gamma, "potentials": list(known.names)}
    return {"engine": {**engine, **observed, "action": action}, "versions": versions, "corrections": cohort.corrections, **facts}


def describe_data(known: recorded.Recorded) -> dict[str, Any]:
    """What the record says of the data that is learned from."""
    data = known.data
    return {
        "fingerprint": known.fingerprint,
        "source": data.source,
        "episodes": data.n_episodes,
        "transitions": len(data),
        "learned_from": known.size,
        "held_out": len(known.held_out),
        "return_mean": float(data.returns.mean()),
        "return_max": float(data.returns.max()),
        "terminated": int(data.terminated.sum()),
    }


def _flags(cohort: Cohort) -> int:
    """How many components of an observation are yes or no (one-hot states, bits), before anything is normalized."""
    env = cohort.env
    if env.picture is not None or env.obs_low is None or env.obs_high is None:
        return 0
    seen = cohort.position.obs.flatten(0, 1).cpu().numpy()
    return int(np.count_nonzero((env.obs_low == 0) & (env.obs_high == 1) & ((seen == 0) | (seen == 1)).all(0)))


def group_by_step(runs: Sequence[Run], *, resume: bool) -> tuple[list[list[tuple[Run, Start]]], list[RunError]]:
    """Runs that can train together, as a kill may have left members with different newest checkpoints; and why others cannot train."""
    groups: dict[tuple[int, str, frozenset[str]], list[tuple[Run, Start]]] = {}
    refused = []
    for run in runs:
        try:
            start = load(run, resume=resume)
        except RunError as error:
            refused.append(error)
            continue
        corrections = run.corrections if start.goes_on else frozenset[str]()
        groups.setdefault((start.found.env_steps if start.found else 0, start.how, corrections), []).append((run, start))
    return list(groups.values()), refused


def paths(arguments: Sequence[str]) -> list[Run]:
    """Run folders from the command line of a training process."""
    return [Run(Path(argument)) for argument in arguments]
