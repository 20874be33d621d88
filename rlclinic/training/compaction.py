"""When at least half of a cohort has left: the others go on in a cohort of their own size.

Members that are through, failed or stopped are frozen by a mask and cost as much as before. At a checkpoint the rest can move: their
states are cut out and put together again as a resume does it, in memory, so that every one of them goes on exactly where it was. Whether
it pays is decided by settings and env steps alone, so that a run repeats itself.
"""

from typing import Final

from rlclinic.training import assembly, envs, replay_assembly
from rlclinic.training.actors.pool import Actors
from rlclinic.training.assembly import Cohort
from rlclinic.training.checkpoints import replay_files, snapshot
from rlclinic.training.curriculum import staged
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.engines import select
from rlclinic.training.engines.captured_offline import CapturedOffline
from rlclinic.training.engines.captured_replay import CapturedReplay
from rlclinic.training.loops import off_policy
from rlclinic.training.parallel.spread_env import SpreadEnv

GPU_SPEED: Final = 1e7
"""Env steps per second, summed over members, of captured iterations of small networks: what a member's share of the time is worth."""


def compact(cohort: Cohort) -> bool:
    """Go on without those who have left, if that pays; edits the cohort. Native environments only: others cannot be moved."""
    live = [index for index, member in enumerate(cohort.members) if member.active]
    total = len(cohort.members)
    if not live or 2 * len(live) > total or not cohort.env.exact or isinstance(cohort.env, SpreadEnv) or not pays(cohort, len(live)):
        return False
    _move(cohort, live)
    for member in cohort.members:
        member.writer.log(
            f"from env step {cohort.env_steps}: {total - len(live)} of {total} runs have ended, the others train without them"
        )
    return True


def pays(cohort: Cohort, live: int) -> bool:
    """Whether what is saved until the end of the budget is more than what a new shape costs: compiling, unless nothing is compiled."""
    plan, config = cohort.plan, cohort.config
    if plan.engine not in ("compiled", "captured"):
        return True
    left = config.run.max_env_steps - cohort.env_steps
    if cohort.device.type == "cuda":
        return left * (len(cohort.members) - live) / GPU_SPEED > select.COMPILE_SECONDS
    assert not isinstance(plan, off_policy.Plan), "with a replay nothing is compiled on a CPU"
    rest = config.model_copy(update={"run": config.run.model_copy(update={"max_env_steps": left})})
    now, then = (select.eager_seconds(rest, plan, members) for members in (len(cohort.members), live))
    return (now - then) * (1 - select.SAVED) > select.COMPILE_SECONDS


def _move(cohort: Cohort, live: list[int]) -> None:
    config, plan, engine = cohort.config, cohort.plan, cohort.engine
    whole = snapshot.whole(plan.policy, cohort.learner, cohort.env, cohort.position)
    found = [snapshot.take(whole, cohort.episodes, cohort.members[index], index, {}, cohort.memory) for index in live]
    cohort.gone += [member for member in cohort.members if not member.active]
    cohort.members = [cohort.members[index] for index in live]
    seeds, device = [member.run.seed for member in cohort.members], str(cohort.device)
    for env in (cohort.env, cohort.eval_env, cohort.tasks_env):
        if env is not None:
            env.close()
    corrections = getattr(cohort.env, "corrections", ())
    cohort.env = assembly.make_env(config, seeds, device, None, [member.config.env.term_weights for member in cohort.members])
    if isinstance(cohort.env, Actors):
        cohort.env.corrections = corrections
    if cohort.eval_env is not None:
        cohort.eval_env = envs.make(config.env, seeds, config.run.eval_episodes, device=device, evaluation=True)
        cohort.tasks_env = staged.make_for_evaluation(config, seeds, device)
    cohort.seed, cohort.episodes = cohort.seed[live], Episodes(len(live), cohort.env.n_envs, config.env.clip_raw_reward)
    learner = snapshot.weights(plan.policy, found, assembly.fresh_learner(plan, seeds, cohort.env.n_envs, cohort.device), optimizer=True)
    cohort.learner, cohort.position, _ = snapshot.place(found, learner, cohort.env, cohort.episodes)
    if cohort.asking is not None:
        cohort.asking.expert.close()
        cohort.asking = None  # begun anew by those who stay
    elif isinstance(plan, off_policy.Plan) and cohort.memory is not None:
        memory = replay_assembly.memory_for(plan, len(live), cohort.device)
        if cohort.memory.stored:
            replay_files.put(memory, [each.replay for each in found if each.replay is not None])
        cohort.memory = memory
    captured = isinstance(engine, CapturedReplay | CapturedOffline)
    cohort.engine = type(engine)(compiles=engine.compiles, tf32=engine.tf32) if captured else type(engine)()  # type: ignore[union-attr,call-arg]
