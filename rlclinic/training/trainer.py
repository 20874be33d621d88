"""The story of a run: collect, learn, evaluate, write, save; again, until the budget is used.

`train` is the loop. An iteration (collect and learn) is the algorithm's kind of loop's (`loops/`); evaluations are `evaluation`'s, rows
`rows`' and `pending_row`'s, checkpoints `checkpoints/`'.
"""

import itertools
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from rlclinic.runs import control, lease
from rlclinic.runs.goal import make_goal
from rlclinic.runs.labelling import Interrupted
from rlclinic.runs.recording import histograms
from rlclinic.training import compaction, evaluation, failures, pending_row, rows
from rlclinic.training.actors.pool import Actors
from rlclinic.training.assembly import Cohort, provenance
from rlclinic.training.checkpoints import files, snapshot
from rlclinic.training.curriculum import staged
from rlclinic.training.evaluation import Evaluation
from rlclinic.training.imitation import iteration
from rlclinic.training.imitation.experts import ExpertSilent
from rlclinic.training.loops import off_policy, off_policy_iteration, offline_iteration, on_policy_iteration
from rlclinic.training.members import Member
from rlclinic.training.parallel.spread_env import SpreadEnv
from rlclinic.training.parallel.watch import RankLost
from rlclinic.training.pending_row import CapturedOutcome, PendingRow
from rlclinic.training.sentinels import environment, fingerprints, on_policy_sentinels

EVALUATION_STREAM = 0x5EED
"""Added to the run's seed for sampled evaluations, so that they do not repeat training's noise."""
COSTLY_SENTINELS = 40
"""How often in a run the costly sentinels are computed."""
TESTIMONY_EVERY = 2
"""One in so many costly rows also has what the transitions say about the environment."""
WRITERS = 8
"""Threads that write the checkpoints of a large cohort."""
REQUEST_SECONDS = 1.0
"""How often a large cohort looks for requests: a thousand folders take a while."""
LARGE_CHECKPOINTS = 2
"""How many checkpoints a run of a large cohort writes at most."""
LOOPS: Final[dict[str, Any]] = {
    "on_policy": on_policy_iteration,
    "off_policy": off_policy_iteration,
    "offline": offline_iteration,
    "imitation": iteration,
}
"""Whose `iterate` collects and learns, by the kind of algorithm."""


@dataclass
class Session:
    """What the loop keeps beside the cohort: due dates, the clock, and readings that wait for a row."""

    cohort: Cohort
    callback: Callable[[dict[str, Any]], bool | None] | None = None
    stop_requested: bool = False
    clock: dict[str, float] = field(default_factory=lambda: dict.fromkeys(rows.PHASES, 0.0))
    waiting: list[dict[str, torch.Tensor]] = field(default_factory=list)
    numbers: list[dict[str, float | None]] = field(default_factory=list)
    """Each member's numbers in the last iteration, as they were applied."""
    outcome: CapturedOutcome | None = None
    """What captured iterations have left for the row that is due."""
    pending: PendingRow | None = None
    """A row that is not written yet."""
    histograms_due: bool = False
    """Whether the iteration that comes is to be recorded as histograms."""
    films_refused: bool = False
    """Whether the environment could not be played for a film: nobody tries again."""
    requests_read: float = -math.inf
    """When requests were last looked for."""
    row_started: float = field(default_factory=time.perf_counter)
    row_env_steps: int = 0


def train(session: Session) -> None:
    """Train every member to the end of its budget, or until it is stopped, done or broken."""
    begin(session)
    cohort, config = session.cohort, session.cohort.config
    row_every = math.ceil(rows.spacing(config, len(cohort.members), cohort.plan.engine) / config.rollout_size)
    while any(member.active for member in cohort.members):
        if not session.waiting:
            # Only between rows: a checkpoint in the middle of one would lose the readings that wait for it.
            handle_requests(session)
        cohort.retire()
        final = cohort.env_steps + config.rollout_size >= config.run.max_env_steps
        due = {what: final or crosses(session, every) for what, every in schedule(config, row_every if cohort.is_large else None).items()}
        if cohort.env_steps + config.rollout_size == config.online_from:
            due |= dict.fromkeys(("eval", "checkpoint"), True)  # what the environment's first steps will be measured against
        row_due = any(due.values()) or (cohort.iteration + 1) % row_every == 0
        # A policy that has learned nothing still tries everything: its transitions say the most about the environment.
        due["testimony"] |= row_due and cohort.iteration < row_every
        if row_due:
            write_rows(session, None)  # the one before, whose numbers have arrived by now; the iterations since then still run
        film_due, session.histograms_due = (
            every is not None and (final or crosses(session, every))
            for every in (config.run.film_every_env_steps, config.run.histograms_every_env_steps)
        )
        sentinels = iterate(session, row_due=row_due, costly=due["costly"], testimony=due["testimony"])  # collect and learn
        if any(member.spent for member in cohort.members):
            due |= dict.fromkeys(("eval", "checkpoint"), True)
        if film_due and not session.films_refused:
            from rlclinic.training.recording import films  # with Gymnasium, whose import takes a quarter of a second

            films.record(session)
        if not row_due:
            continue
        if due["costly"] or due["eval"]:
            sentinels |= fingerprint(session)
        prepare_row(session, sentinels)
        if not (due["eval"] or due["checkpoint"]) and may_write_later(session):
            continue
        evaluated = evaluate(session) if due["eval"] else None
        write_rows(session, evaluated)
        save(session, due=due["checkpoint"])
        end_members(session, final, saved=due["checkpoint"])
        if due["checkpoint"]:
            compaction.compact(cohort)


def begin(session: Session) -> None:
    """Write down what was decided at the start, and end at once what was killed when it had nothing more to do."""
    cohort, config = session.cohort, session.cohort.config
    facts = provenance(cohort)
    for member in cohort.members:
        with member.writing(cohort.env_steps):
            terms = {"reward_terms": list(member.config.env.log_terms)} if member.config.env.log_terms else {}
            member.writer.annotate(**facts, **terms, random_policy=member.baseline)
            member.writer.status("running", cohort.env_steps, max_env_steps=config.run.max_env_steps)
    if config.run.histograms_every_env_steps is not None:
        for member in cohort.members:
            with member.writing(cohort.env_steps):
                histograms.cut(member.path, cohort.env_steps)
    if isinstance(cohort.env, SpreadEnv):
        cohort.env.listen(lambda text: tell(session, text))
    session.row_env_steps = cohort.env_steps
    if cohort.env_steps:
        # A kill after the last checkpoint and before the last words leaves a run that has nothing more to do.
        end_members(session, cohort.env_steps >= config.run.max_env_steps, saved=bool(files.steps(cohort.members[0].path)))


def tell(session: Session, text: str) -> None:
    """Say in every log what holds a run up."""
    for member in session.cohort.members:
        if member.active:
            with member.writing(session.cohort.env_steps):
                member.writer.log(f"env step {session.cohort.env_steps}: {text}")
                member.writer.status("running", session.cohort.env_steps, reason=text)


def prepare_row(session: Session, sentinels: dict[str, torch.Tensor]) -> None:
    """Keep what the row that is due will say, as it is now; the next readings are for the next row."""
    at = session.cohort
    session.pending = pending_row.make(
        at.env_steps, at.iteration, session.numbers, session.waiting, sentinels, session.clock, session.outcome
    )
    session.waiting, session.clock, session.outcome = [], dict.fromkeys(rows.PHASES, 0.0), None


def may_write_later(session: Session) -> bool:
    """Whether the row that is due may be written later: nobody listens, and the GPU goes on meanwhile."""
    pending = session.pending
    return pending is not None and pending.outcome is not None and session.callback is None and not session.stop_requested


def schedule(config: Any, row_every: int | None = None) -> dict[str, int | None]:
    """How often things happen, in env steps; None: only at the end.

    row_every: for a large cohort, the iterations between its rows. It writes few checkpoints, each a folder per member, and looks
    into its networks at every fourth row, so that no row is written for that alone.
    """
    run = config.run
    checkpoint = run.checkpoint_every_env_steps or run.eval_every_env_steps or math.ceil(run.max_env_steps / 10)
    costly = math.ceil(run.max_env_steps / COSTLY_SENTINELS)
    if row_every is not None:
        checkpoint, costly = max(checkpoint, math.ceil(run.max_env_steps / LARGE_CHECKPOINTS)), 4 * row_every * config.rollout_size
    evaluate_every = run.eval_every_env_steps if run.eval_episodes else None
    return {"eval": evaluate_every, "checkpoint": checkpoint, "costly": costly, "testimony": TESTIMONY_EVERY * costly}


def crosses(session: Session, every: int | None) -> bool:
    """Whether the iteration that comes passes a multiple of `every` env steps: a function of the step, not of the past."""
    if every is None:
        return False
    before = session.cohort.env_steps
    return (before + session.cohort.config.rollout_size) // every > before // every


def iterate(session: Session, *, row_due: bool, costly: bool, testimony: bool = False) -> dict[str, torch.Tensor]:
    """One iteration of every member, as its loop does it; returns sentinels if a row is due."""
    cohort = session.cohort
    loop = LOOPS[cohort.config.algo.loop]
    sentinels: dict[str, torch.Tensor] = loop.iterate(session, row_due=row_due, costly=costly, testimony=testimony)
    cohort.iteration += 1
    cohort.env_steps += cohort.config.rollout_size
    if isinstance(cohort.env, Actors):
        for member, text in itertools.product(cohort.members, cohort.env.take_messages()):
            if member.active:
                with member.writing(cohort.env_steps):
                    member.writer.log(f"env step {cohort.env_steps}: {text}")
    if (curriculum := staged.find(cohort.env)) is not None:
        for index, text in curriculum.learn(cohort.env_steps):
            if (member := cohort.members[index]).active:
                with member.writing(cohort.env_steps):
                    member.writer.log(f"curriculum, env step {cohort.env_steps}: {text}")
    return sentinels


def fingerprint(session: Session) -> dict[str, torch.Tensor]:
    """Which state the iteration left behind: that of a checkpoint written now."""
    cohort, started = session.cohort, time.perf_counter()
    found = fingerprints.of_state(cohort.whole_learner(), cohort.seed.view(-1, 1), cohort.iteration, cohort.env)
    session.clock["sentinels"] += time.perf_counter() - started
    return {on_policy_sentinels.PREFIX + name: number for name, number in found.items()}


def evaluate(session: Session) -> Evaluation | None:
    """Evaluate all active members at once; remember bests and first crossings of the threshold."""
    cohort = session.cohort
    if cohort.eval_env is None:
        return None
    started = time.perf_counter()
    if session.pending is not None:
        receive(cohort, session.pending)
    wanted = [member.active for member in cohort.members]
    seed = cohort.seed.squeeze(-1) + EVALUATION_STREAM
    result = evaluation.evaluate(
        cohort.plan, cohort.learner, cohort.eval_env, deterministic=cohort.config.run.eval_deterministic, seed=seed, wanted=wanted
    )
    for index, member in enumerate(cohort.members):
        if member.active and index not in cohort.eval_env.failures:
            member.eval_env_steps += int(result.lengths[index].sum())
            member.eval_mean = float(result.returns[index].copy().mean())
            member.improved = member.best_eval is None or member.eval_mean >= member.best_eval
            if member.improved:
                member.best_eval = member.eval_mean
            member.success_rate = result.success_rate(index)
            if (first := cohort.config.online_from) is not None:
                member.measure_switch(cohort.env_steps, first)
            goal = make_goal(member.config.env.id, member.config.spec.threshold, member.config.spec.success)
            if member.reached_at is None and goal.is_passed(member.eval_mean, member.success_rate):
                member.reached_at = cohort.env_steps
    if cohort.tasks_env is not None:
        by_task = evaluation.evaluate(
            cohort.plan, cohort.learner, cohort.tasks_env, deterministic=cohort.config.run.eval_deterministic, seed=seed, wanted=wanted
        )
        for index, member in enumerate(cohort.members):
            if member.active and index not in cohort.tasks_env.failures:
                member.eval_env_steps += int(by_task.lengths[index].sum())
        rates = [staged.rate_tasks(cohort.config, by_task, index) for index in range(len(cohort.members))]
        result = replace(result, by_task=rates)
    failures.environments(cohort)
    clock = session.clock if session.pending is None else session.pending.clock
    clock["eval"] += time.perf_counter() - started
    return result


def write_rows(session: Session, evaluated: Evaluation | None) -> None:
    """The pending row, for every active member."""
    cohort, pending, started = session.cohort, session.pending, time.perf_counter()
    if pending is None:
        return
    session.pending = None
    receive(cohort, pending)
    training = time.perf_counter() - session.row_started - pending.clock["eval"] - pending.clock["write"]
    fps = (pending.env_steps - session.row_env_steps) / max(training, 1e-9)
    cells = contents(cohort, pending, evaluated, {"time": time.time(), "time/fps": fps})
    # Runs of one group have one header, unless one of them was begun anew with a later version.
    writers = {member.writer.columns: member.writer for member in cohort.members}
    lines = {columns: writer.lines(cells, len(cohort.members)) for columns, writer in writers.items()}
    for index, member in enumerate(cohort.members):
        if member.active:
            with member.writing(pending.env_steps):
                member.writer.add(lines[member.writer.columns][index])
                report(session, member, pending.env_steps, index, cells)
    session.clock["write"] += time.perf_counter() - started
    session.row_started, session.row_env_steps = started, pending.env_steps


def receive(cohort: Cohort, pending: PendingRow) -> None:
    """Take in what captured iterations have left, once it is on the host: who has fallen, and which episodes have ended."""
    pending.wait()
    if pending.outcome is not None:
        failures.fallen(cohort, pending.outcome.alive, pending.readings, pending.iterations, pending.env_steps)
        cohort.episodes.take_in(pending.outcome.ended)
        pending.outcome = None


def contents(cohort: Cohort, pending: PendingRow, evaluated: Evaluation | None, clock: dict[str, float]) -> rows.Columns:
    """A row's cells by column, of all members."""
    members = cohort.members
    one_by_one = None if cohort.is_large else rows.by_column([cohort.episodes.row(index) for index in range(len(members))])
    constant = {"total_timesteps": pending.env_steps, "epoch": pending.iteration, **clock}
    constant |= {f"time/{phase}": seconds for phase, seconds in pending.clock.items()}
    cells: rows.Columns = {name: [value] * len(members) for name, value in constant.items()}
    cells |= one_by_one or cohort.episodes.columns()
    cells |= summaries(cohort, pending) | pending.sentinel_cells()
    cells |= {on_policy_sentinels.PREFIX + name: each for name, each in rows.by_column([member.baseline for member in members]).items()}
    cells |= {f"train/hp/{name}": each for name, each in rows.by_column(pending.numbers).items()}
    if (first := cohort.config.online_from) is not None:
        switch = rows.by_column([member.describe_switch(pending.env_steps, first) for member in members])
        cells |= {on_policy_sentinels.PREFIX + name: each for name, each in switch.items()}
    if (said := getattr(cohort.env, "info", None)) is not None:
        cells |= said.cells()
    if (curriculum := staged.find(cohort.env)) is not None:
        cells |= curriculum.cells()
    if environment.MARK in pending.names:
        cells |= environment.of_episodes([cohort.episodes.recent(index) for index in range(len(members))])
    return cells | ({} if evaluated is None else rows.by_column([evaluated.row(index) for index in range(len(members))]))


def summaries(cohort: Cohort, pending: PendingRow) -> rows.Columns:
    """Loss, metric and gradient columns of every member, from the readings that waited for this row."""
    waiting = pending.readings
    if isinstance(cohort.plan, off_policy.Plan):
        return rows.summarize_replay(waiting, len(cohort.members), [numbers.get("max_grad_norm") for numbers in pending.numbers])
    return rows.summarize({name: torch.cat([each[name] for each in waiting]) for name in waiting[0]})


def report(session: Session, member: Member, env_steps: int, index: int, cells: rows.Columns) -> None:
    """Tell status.json, TensorBoard, and whoever called us from Python."""
    member.writer.status(
        "running",
        env_steps,
        return_mean=cells["train/roll/ep_rew_mean"][index] if "train/roll/ep_rew_mean" in cells else None,
        episodes=cells["total_episodes"][index],
        fps=cells["time/fps"][index],
        eval_mean=member.eval_mean,
        best_eval=member.best_eval,
        success_rate=member.success_rate,
        threshold_reached_at=member.reached_at,
        eval_env_steps=member.eval_env_steps or None,
    )
    if member.events is None and session.callback is None:
        return
    values = {name: each[index] for name, each in cells.items()}
    if member.events is not None:
        member.events.add(env_steps, values["time"], values)
    if session.callback is not None and session.callback({"run": member.run, **values}) is False:
        session.stop_requested = True


def save(session: Session, *, due: bool) -> None:
    """A checkpoint of every active member if it is time for one, and of one that has just done better than ever, unless they are many."""
    cohort, started = session.cohort, time.perf_counter()
    wanted = due or not cohort.is_large
    save_members(session, [i for i, each in enumerate(cohort.members) if each.active and wanted and (due or each.improved)])
    for member in cohort.members:
        member.improved = False
    session.clock["write"] += time.perf_counter() - started


def save_members(session: Session, indices: list[int]) -> None:
    """Checkpoints of these members."""
    cohort = session.cohort
    if not indices:
        return
    whole = snapshot.whole(cohort.plan.policy, cohort.whole_learner(), cohort.env, cohort.position)
    if not cohort.is_large:
        for index in indices:
            save_member(session, index, whole)
        return
    # Thousands of small files: most of the time is the file system's, which can take several at once.
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda index: save_member(session, index, whole), indices))
    os.sync()  # once for all of them, where each would wait for the disk


def save_member(session: Session, index: int, whole: snapshot.Whole) -> None:
    """Write one checkpoint; a disk that refuses ends this member and leaves the others."""
    cohort, member = session.cohort, session.cohort.members[index]
    best, member.improved = cohort.eval_env is None or member.improved, False
    with member.writing(cohort.env_steps):
        offset = member.writer.flush(sync=not cohort.is_large)
        counters = {"env_steps": cohort.env_steps, "iteration": cohort.iteration, "metrics_offset": offset}
        memory = cohort.memory if cohort.config.run.save_replay else None
        taken = snapshot.take(whole, cohort.episodes, member, index, counters, memory)
        files.write(member.path, taken, best=best, sync=not cohort.is_large)


def end_members(session: Session, final: bool, *, saved: bool) -> None:
    """End the members whose time has come: the budget is used, the threshold reached, or somebody asked them to stop."""
    cohort = session.cohort
    reached = {id(each) for each in cohort.members if each.config.run.stop_at_threshold and each.reached_at is not None}
    ends = {id(each): "the expert was asked as often as max_queries allows" for each in cohort.members if each.spent}
    ends |= dict.fromkeys(reached, "threshold reached")
    leaving = [i for i, each in enumerate(cohort.members) if each.active and (final or session.stop_requested or id(each) in ends)]
    if not saved:
        save_members(session, leaving)
    asked = lease.CUT_OFF if lease.runs_out() else lease.WITH_ITS_PROCESS if lease.is_kept() else control.ASKED
    for member in (cohort.members[index] for index in leaving):
        if member.active:
            done = final or id(member) in ends
            why = None if final else ends.get(id(member), asked)
            member.end("finished" if done else "stopped", why, cohort.env_steps)


def handle_requests(session: Session) -> None:
    """Requests from outside (control.json), and recorded ones that a resume replays."""
    cohort, now = session.cohort, time.monotonic()
    for member in cohort.members:
        if member.active and member.interventions:
            with member.writing(cohort.env_steps):
                member.replay(cohort.env_steps)
    if cohort.is_large and now - session.requests_read < REQUEST_SECONDS:
        return
    session.requests_read = now
    for index, member in enumerate(cohort.members):
        request = None
        if member.active:
            with member.writing(cohort.env_steps):
                request = member.writer.read_control()
                if request is not None and request.get("set"):
                    member.intervene(cohort.env_steps, request["set"])
        if request is None or not member.active:
            continue
        write_rows(session, None)  # what is asked for may end it
        if (request.get("checkpoint") or request.get("stop")) and cohort.iteration:
            save_members(session, [index])
        if request.get("stop") and member.active:
            member.end("stopped", control.ASKED, cohort.env_steps)


def end_all(session: Session, error: BaseException) -> None:
    """Something that no member answers for went wrong, or somebody pressed Ctrl-C: say so in every folder."""
    state, reason = "failed", f"{type(error).__name__}: {error}"
    if isinstance(error, KeyboardInterrupt):
        state, reason = "stopped", "interrupted"
    elif isinstance(error, ExpertSilent | Interrupted):
        state, reason = "stopped", str(error)
    elif isinstance(error, RankLost):
        reason = str(error)
    for member in session.cohort.members:
        if member.active:
            member.end(state, reason, session.cohort.env_steps)


def close(session: Session) -> None:
    """Final words in every folder; always called, whatever happened."""
    cohort = session.cohort
    for env in (cohort.env, cohort.eval_env, cohort.tasks_env):
        if env is not None:
            env.close()
    if cohort.asking is not None:
        cohort.asking.expert.close()
    for member in cohort.everyone:
        with member.writing(cohort.env_steps):
            member.writer.flush()
        with member.writing(cohort.env_steps):
            member.writer.status(
                member.state,
                cohort.env_steps if member.ended_at is None else member.ended_at,
                reason=member.reason,
                eval_mean=member.eval_mean,
                best_eval=member.best_eval,
                success_rate=member.success_rate,
                threshold_reached_at=member.reached_at,
                lost=member.is_lost(),
            )
        with member.writing(cohort.env_steps):
            member.writer.close()
