"""One round of a cohort that imitates: act, ask, keep the answers, train on all of them."""

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from rlclinic.errors import ConfigError, RunError
from rlclinic.runs import control
from rlclinic.training import failures, members, optim, rng
from rlclinic.training.algos import dagger
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.envs.base import Step
from rlclinic.training.imitation import experts, labels, selection
from rlclinic.training.imitation.experts import GIVE_UP, Expert, ExpertSilent, Question
from rlclinic.training.imitation.labels import Answers, Labels
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan, Transitions
from rlclinic.training.maths import exploration
from rlclinic.training.nets import q_nets

if TYPE_CHECKING:
    from rlclinic.training.assembly import Cohort
    from rlclinic.training.trainer import Session

PREFIX: Final = "train/imitation/"
CHUNK: Final = 128
"""Gradient steps whose rows are drawn at once."""
LEARNS: Final = 0.8
"""The share of the labels that each of several policies learns from."""
_BOOTSTRAP, _HOLDOUT, _REPEAT = 101, 102, 103


class Asking:
    """A cohort's side of the conversation with its expert: who is asked how often, and what was said."""

    def __init__(self, cohort: "Cohort", expert: Expert, kept: Labels) -> None:
        self.expert, self.labels = expert, kept
        self.answers = [Answers(member.path, kept.rounds) if expert.costs else None for member in cohort.members]
        self.queries = [
            sum(rounds) if answers is None else answers.count_queries(rounds)
            for rounds, answers in zip(kept.count_queries(), self.answers, strict=True)
        ]
        self.silent = 0
        """Questions in a row that nobody has answered."""

    def left(self, member: int, limit: int) -> int | None:
        """How many questions may still be asked; None: any number."""
        return None if not limit else limit - self.queries[member]


def begin(session: "Session") -> Asking:
    """Load the labels so far, and find the expert; a fork gets its own copy of what its parent was told."""
    cohort, config = session.cohort, session.cohort.config
    plan, rounds = cohort.plan, session.cohort.iteration
    assert isinstance(plan, Plan)
    kept = labels.start(plan, cohort.env, len(cohort.members), max(config.iterations, rounds + 1), cohort.device)
    for index, member in enumerate(cohort.members):
        parent = member.run.parent
        if rounds and parent is not None:
            labels.copy(member.path.parent / parent.rpartition("@")[0], member.path, rounds)
        labels.forget_later(member.path, rounds)
        labels.load(kept, index, member.path, rounds)

    def say(text: str) -> None:
        for member in cohort.members:
            with member.writing(cohort.env_steps):
                member.writer.log(text)

    def stops() -> bool:
        # A person may think for hours within one round: a request is heard there, too, and not only between rounds.
        asked = ((control.pending(member.path) or {}).get("stop") for member in cohort.members if member.active)
        return session.stop_requested or any(asked)

    expert = experts.make(config, cohort.env, cohort.members[0].path.parent, say, stops)
    return Asking(cohort, expert, kept)


def iterate(session: "Session", *, row_due: bool, costly: bool, testimony: bool = False) -> dict[str, Tensor]:
    """One round of every member; returns its columns."""
    cohort, clock = session.cohort, session.clock
    plan, before = cohort.plan, cohort.learner
    assert isinstance(plan, Plan)
    assert isinstance(before, Learner)
    if cohort.asking is None:
        cohort.asking = begin(session)
    hp = members.replay_numbers(cohort.members, cohort.env_steps, plan.memory.action_size, cohort.device)
    session.numbers = hp.per_member
    active = None if hp.going is None else members.active_mask(cohort.members, cohort.device)
    transitions, found = collect(session, cohort.asking, hp)
    started = time.perf_counter()
    learner = off_policy.update_normalizers(plan, before, transitions, hp, members.active_mask(cohort.members, cohort.device))
    learner, readings = learn(plan, learner, cohort.asking.labels, hp, active, cohort.seed)
    found |= measure(plan, learner, cohort.asking.labels, readings)
    learner = failures.keep_finite_replay(cohort, before, learner, transitions, {})
    session.waiting.append({name: values for name, values in readings.items() if name.startswith(("loss/", "grad_norm/"))})
    cohort.episodes.add(transitions)  # type: ignore[arg-type]  # of a rollout it reads what both have
    cohort.learner = learner
    limit = plan.config.max_queries
    for index, member in enumerate(cohort.members):
        member.spent = bool(limit) and cohort.asking.queries[index] >= limit
    failures.environments(cohort)
    clock["learn"] += time.perf_counter() - started
    return {PREFIX + name: values for name, values in found.items()}


@torch.no_grad()
def collect(session: "Session", asking: Asking, hp: Hyperparameters) -> tuple[Transitions, dict[str, Tensor]]:
    """A round's steps of every env: who acts, who is asked, what is kept; and columns [M]."""
    cohort, clock = session.cohort, session.clock
    plan, learner, env, kept = cohort.plan, cohort.learner, cohort.env, asking.labels
    assert isinstance(plan, Plan)
    assert isinstance(learner, Learner)
    params, number, steps = off_policy.networks(plan, learner), kept.rounds, plan.config.train_freq
    count, n_envs = len(cohort.members), plan.memory.n_envs
    alone = number < plan.config.expert_rounds  # there is no policy to speak of: the expert acts
    thresholds = selection.Thresholds() if alone else selection.prepare(plan, learner, params, kept)
    first = torch.arange(steps, device=cohort.device).view(1, -1, 1) + cohort.env_steps // n_envs
    envs = torch.arange(n_envs, device=cohort.device).view(1, 1, -1)
    draws = exploration.uniform_noise(cohort.seed, first, envs, 4)  # [M, T, N, 4]: who acts, audits, and noise of choices
    jitter = exploration.normal_noise(cohort.seed, first, envs, plan.memory.action_size)
    asked_again = rng.uniform(cohort.seed, _REPEAT, first, envs) < plan.config.repeat_queries
    in_charge = torch.zeros(count, n_envs, dtype=torch.bool, device=cohort.device)
    taken: list[tuple[Tensor, Tensor, Step, Tensor | None]] = []
    sent: list[Tensor] = []
    told: dict[str, list[Tensor]] = {name: [] for name in (*labels.BESIDE, "audited")}
    for t in range(steps):
        started = time.perf_counter()
        position = cohort.position
        shown = off_policy.normalize_obs(plan, learner, position.obs)
        each = dagger.policies(plan, params, shown)
        own = dagger.combine(plan, each, position.action_mask)
        if alone:
            whole = torch.ones_like(in_charge)
            chosen = selection.Chosen(whole, whole, torch.zeros_like(whole))
        else:
            chosen = selection.choose(plan, params, shown, each, own, hp, thresholds, in_charge, draws[:, t, :, :2])
        answer = ask(session, asking, position.obs, position.action_mask, chosen.asks, asked_again[:, t], (number, t))
        expert_acts = chosen.expert_acts & answer["answered"]
        moved = add_noise(plan, own, hp.policy_noise, jitter[:, t], draws[:, t, :, 2:], position.action_mask)
        at_env = off_policy.to_env(plan, moved)
        action = torch.where(expert_acts if at_env.dim() == 2 else expert_acts.unsqueeze(-1), answer["label"], at_env)
        before = time.perf_counter()
        step = env.step(action)
        now = time.perf_counter()
        clock["env"] += now - before
        clock["act"] += before - started
        error = dagger.distance(plan, own, off_policy.from_env(plan, answer["label"]))
        row = {**answer, "by_expert": expert_acts, "error": torch.where(answer["answered"], error, float("nan"))}
        row |= {"audited": chosen.audited & answer["answered"], "doubt": dagger.disagree(plan, each)}
        for name, values in row.items():
            told[name].append(values)
        taken.append((position.obs, action, step, None))
        sent.append(action)
        if thresholds.calm is not None:
            in_charge = expert_acts & (error > thresholds.calm) & ~(step.terminated | step.truncated)
        position.obs, position.action_mask = step.obs, step.action_mask
    transitions = off_policy.stack_steps(plan, taken)
    stacked = {name: torch.stack(values, 1) for name, values in told.items()}
    labels.add(kept, transitions, torch.stack(sent, 1), {name: stacked[name] for name in labels.BESIDE})
    facts = {"env_id": cohort.config.env.id, "notes": []}
    for index, member in enumerate(cohort.members):
        if member.active:
            with member.writing(cohort.env_steps):
                labels.write(member.path, kept, index, transitions, env, facts)
    return transitions, describe(plan, hp, asking, stacked)


def add_noise(plan: Plan, action: Tensor, size: Tensor, jitter: Tensor, draws: Tensor, action_mask: Tensor | None) -> Tensor:
    """The policy's own action with the noise that the config asks for."""
    if plan.action.kind == "discrete":
        drawn = exploration.random_choice(draws, plan.action.sizes[0], action_mask)
        return torch.where(draws[..., 0] < size, drawn, action)
    return exploration.gaussian(action, size, jitter)


def ask(
    session: "Session", asking: Asking, obs: Tensor, action_mask: Tensor | None, asks: Tensor, again: Tensor, at: tuple[int, int]
) -> dict[str, Tensor]:
    """Put the questions of one step, within the budget: label, queries, answered and spread, [M, N] each."""
    cohort = session.cohort
    spec, limit = cohort.env.action, cohort.config.algo.max_queries  # type: ignore[union-attr]
    shape = tuple(asks.shape)
    label = np.zeros(shape if spec.kind == "discrete" else (*shape, spec.sizes[0]), np.int64 if spec.kind == "discrete" else np.float32)
    queries, answered, spread = np.zeros(shape, np.uint8), np.zeros(shape, bool), np.full(shape, np.nan, np.float32)
    wanted, twice, states = asks.cpu().numpy(), again.cpu().numpy(), obs.cpu().numpy()
    masks = None if action_mask is None else action_mask.cpu().numpy()
    for index, member in enumerate(cohort.members):
        if not member.active:
            continue
        for env in np.flatnonzero(wanted[index]).tolist():
            said = []
            for time_asked in range(2 if twice[index, env] else 1):
                place = (*at, env, time_asked)
                answers = asking.answers[index]
                known, raw = (False, None) if answers is None else answers.find(place, states[index, env])
                if not known:
                    left = asking.left(index, limit)
                    if left is not None and left <= 0:
                        break
                    asking.queries[index] += 1
                    question = Question(member.path, place, None if masks is None else masks[index])
                    raw = put(session, asking, states[index], env, index, question)
                    if answers is not None:
                        answers.add(place, states[index, env], raw)
                queries[index, env] += 1
                if raw is not None:
                    said.append(experts.read_action(raw, cohort.env))
            if said:
                answered[index, env] = True
                label[index, env] = said[0] if spec.kind == "discrete" else np.mean(said, 0)
            if len(said) == 2:
                spread[index, env] = _apart(said, spec.low, spec.high)
    device = obs.device
    found = {"label": label, "queries": queries, "answered": answered, "spread": spread}
    return {name: torch.from_numpy(values).to(device) for name, values in found.items()}


def _apart(said: list[Any], low: Any, high: Any) -> float:
    """How far two answers are apart, where actions reach from -1 to 1; 1 for two choices."""
    if low is None:
        return float(said[0] != said[1])
    return float(np.sqrt(np.mean(((said[0] - said[1]) / (0.5 * (high - low))) ** 2)))


def put(session: "Session", asking: Asking, states: Any, env: int, index: int, question: Question) -> Any:
    """One question: an answer that is an action of the environment's, as plain numbers; None where there is none."""
    cohort, member = session.cohort, session.cohort.members[index]
    try:
        raw = asking.expert.answer(states, env, question)
        checked = None if raw is None else experts.read_action(raw, cohort.env, question.list_allowed(env)).tolist()
    except ConfigError as error:
        checked = None
        member.writer.log(f"the expert's answer does not count: {str(error).splitlines()[0]}")
    except RunError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the user's own function: whatever it raises is no answer
        checked = None
        member.writer.log(f"the expert raised {type(error).__name__}: {error}")
    asking.silent = 0 if checked is not None else asking.silent + 1
    if asking.silent >= GIVE_UP:
        raise ExpertSilent(
            f"the expert {asking.expert.name} has not answered {GIVE_UP} questions in a row.\n"
            "  What was labelled is kept. When it answers again, go on: the run's log says what was wrong"
        )
    return checked


def describe(plan: Plan, hp: Hyperparameters, asking: Asking, told: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns [M] of what was asked and said in a round."""
    answered, kept = told["answered"].flatten(1), asking.labels
    error = told["error"].flatten(1)
    asked = told["queries"].flatten(1) > 0
    own = ~told["by_expert"].flatten(1)

    def mean(values: Tensor, where: Tensor) -> Tensor:
        return torch.where(where, values, torch.zeros_like(values)).sum(1) / where.sum(1)  # nan where there is none

    new = slice(kept.rows - kept.round_size, kept.rows)
    stored, there = kept.label[:, new], kept.answered[:, new]
    same = ~_differs(stored, kept.action[:, new]) & there
    by_policy = ~kept.by_expert[:, new] & there
    found = {
        "round": torch.full((len(answered),), float(kept.rounds)),
        "queries": torch.tensor([float(count) for count in asking.queries]),
        "labels": kept.answered[:, : kept.rows].sum(1).double(),
        "unanswered": ((kept.queries > 0) & ~kept.answered)[:, : kept.rows].sum(1).double(),
        "expert_share": told["by_expert"].flatten(1).float().mean(1),
        "asked_share": asked.float().mean(1),
        "disagreement": mean(error, answered),
        "disagreement_p95": torch.nanquantile(error, 0.95, dim=1),
        "policy_state_error": mean(error, answered & own),
        "label_is_executed": mean(same.float(), by_policy),
        # As it was said against as it was stored: whatever lies between the two must not touch it.
        "label_altered": mean(_differs(labels.by_env(told["label"]), stored).float(), there),
        "label_noise": torch.nanmean(kept.spread[:, : kept.rows], dim=1) / math.sqrt(2.0),
    }
    if plan.config.ensemble > 1:
        found["doubt"] = told["doubt"].flatten(1).mean(1)
    if plan.config.select == "safe":
        unsafe = error > hp.unsafe_error
        found |= {"unsafe_share": mean(unsafe.float(), answered), "missed_share": mean(unsafe.float(), told["audited"].flatten(1))}
    return found


def _differs(one: Tensor, other: Tensor) -> Tensor:
    """Which rows [M, R] of two tensors of actions are not the same."""
    apart = one != other
    return apart if apart.dim() == 2 else apart.any(-1)


# ── learning ──


def count_updates(plan: Plan, kept: Labels) -> int:
    """Gradient steps of the round: a function of the steps so far, which are the same for all members."""
    rows = kept.rows if not plan.config.keep_rounds else min(kept.rows, plan.config.keep_rounds * kept.round_size)
    return max(int(plan.config.gradient_steps), math.ceil(plan.config.n_epochs * rows / plan.config.batch_size))


@torch.no_grad()
def learn(
    plan: Plan, learner: Learner, kept: Labels, hp: Hyperparameters, active: Tensor | None, seed: Tensor
) -> tuple[Learner, dict[str, Tensor]]:
    """Train the networks on the labels; readings are [U, M] for losses and norms, [M] for the rest."""
    learner = off_policy.copy_learner(learner)
    if plan.config.retrain == "scratch":
        begin_anew(plan, learner, seed, active)
    elif "safety" in learner.nets:
        begin_anew(plan, learner, seed, active, only="safety")
    updates, size = count_updates(plan, kept), plan.config.batch_size
    usable, held_out = split(plan, kept, seed)
    table, count = index_rows(usable)
    row = torch.arange(kept.rows, device=seed.device)
    copies = torch.arange(plan.config.ensemble, device=seed.device).view(1, -1, 1)
    # Which policy learns from which row: drawn once for the run, so that rounds do not wash it out.
    kept_by = rng.uniform(seed, _BOOTSTRAP, copies, row.view(1, 1, -1)) < (LEARNS if plan.config.ensemble > 1 else 2.0)  # [M, C, R]
    readings: dict[str, list[Tensor]] = {"loss/imitation": [], "grad_norm/all": []}
    someone = (count > 0) if active is None else (count > 0) & active
    obs, label = kept.shown(plan, learner), off_policy.from_env(plan, kept.label[:, : kept.rows])
    for first in range(0, updates, CHUNK):
        many = min(CHUNK, updates - first)
        bits = replay.random_bits(seed, learner.updates + first, many, size)
        index = table.gather(1, bits % count.clamp(min=1)).unflatten(1, (many, size))  # [M, U, B]
        for update in range(many):
            rows = index[:, update]
            batch = dagger.Labelled(
                _take(obs, rows), _take(label, rows), kept_by.gather(2, rows.unsqueeze(1).expand(-1, plan.config.ensemble, -1)).float()
            )
            found = dagger.imitate(plan, learner, batch, hp, someone)
            readings["loss/imitation"].append(found["imitation"].squeeze(-1))
            readings["grad_norm/all"].append(found["norm"].squeeze(-1))
    if "safety" in learner.nets:
        readings["loss/safety"] = learn_safety(plan, learner, kept, held_out, hp, active, seed)
    if "critic" in learner.nets:
        readings["loss/critic"] = learn_critic(plan, learner, kept, hp, active, seed)
    done = replace(learner, updates=learner.updates + updates)
    stacked = {name: torch.stack(values) for name, values in readings.items()}
    there = kept.answered[:, : kept.rows]
    return done, stacked | {
        "passes": updates * size / count.squeeze(1).clamp(min=1).double(),
        "learned_share": (there & _recent(plan, kept)).sum(1) / there.sum(1),
    }


def begin_anew(plan: Plan, learner: Learner, seed: Tensor, active: Tensor | None, only: str | None = None) -> None:
    """First weights and no optimizer history, in place: as each member's seed gives them."""
    for stream, (name, net) in enumerate(plan.nets.items()):
        if only not in (None, name):
            continue
        fresh = torch.cat([q_nets.initialize(net, int(number), stream) for number in seed.flatten().tolist()]).to(seed.device)
        for old, new in zip((learner.nets[name], *learner.optimizers[name]), (fresh, *optim.start(fresh)), strict=True):
            old.copy_(new if active is None else torch.where(active, new, old))
        if name in learner.targets:
            learner.targets[name].copy_(learner.nets[name])


def split(plan: Plan, kept: Labels, seed: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows the policies learn from, and which labelled ones they do not, [M, R]."""
    row = torch.arange(kept.rows, device=seed.device)
    there = kept.answered[:, : kept.rows]
    held = rng.uniform(seed.squeeze(-1), _HOLDOUT, row.view(1, -1)) < plan.config.holdout
    return there & ~held & _recent(plan, kept), there & held


def _recent(plan: Plan, kept: Labels) -> Tensor:
    """Which rows [R] belong to rounds that are still learned from."""
    row = torch.arange(kept.rows, device=kept.label.device)
    return row >= (kept.rows - plan.config.keep_rounds * kept.round_size if plan.config.keep_rounds else 0)


def index_rows(usable: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the usable rows [M, R], those first, and how many they are, [M, 1]."""
    return torch.sort((~usable).byte(), dim=1, stable=True).indices, usable.sum(1, keepdim=True)


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """Rows [M, B] of [M, R, ...]."""
    return values[torch.arange(len(values), device=values.device).unsqueeze(1), rows]


def learn_safety(
    plan: Plan, learner: Learner, kept: Labels, held_out: Tensor, hp: Hyperparameters, active: Tensor | None, seed: Tensor
) -> list[Tensor]:
    """Train the classifier on what the policies did where they had not learned from a label: elsewhere all would look safe.

    That is what they do now on labels that are kept from them, and what they did on the others of the newest round when they met those
    states. Without the latter the classifier would see one in five of the mistakes that were paid for.
    """
    obs = kept.shown(plan, learner)
    label = off_policy.from_env(plan, kept.label[:, : kept.rows])
    error = dagger.distance(plan, dagger.act(plan, off_policy.networks(plan, learner), obs, None, None), label)
    row = torch.arange(kept.rows, device=obs.device)
    # In the expert's own rounds no policy met anything.
    newest = (row >= kept.rows - kept.round_size) & (row >= plan.config.expert_rounds * kept.round_size)
    met = newest & kept.answered[:, : kept.rows] & ~held_out
    error = torch.where(met, kept.error[:, : kept.rows], error)
    shown = held_out | met
    unsafe = (error > hp.unsafe_error).float()
    table, count = index_rows(shown)
    # Each kind counts as much, however rare it is.
    share = (unsafe * shown).sum(1, keepdim=True) / count.clamp(min=1)
    weight = torch.where(unsafe > 0, 0.5 / share.clamp(min=0.05), 0.5 / (1 - share).clamp(min=0.05))
    someone = (count > 0) if active is None else (count > 0) & active
    losses, size, updates = [], plan.config.batch_size, int(plan.config.gradient_steps)
    bits = replay.random_bits(seed + 1, learner.updates, updates, size)
    index = table.gather(1, bits % count.clamp(min=1)).unflatten(1, (updates, size))
    for update in range(updates):
        rows = index[:, update]
        found = dagger.classify(plan, learner, _take(obs, rows), _take(unsafe, rows), _take(weight, rows), hp, someone)
        losses.append(found["safety"].squeeze(-1))
    return losses


def learn_critic(plan: Plan, learner: Learner, kept: Labels, hp: Hyperparameters, active: Tensor | None, seed: Tensor) -> list[Tensor]:
    """Train the critic on all steps so far: what the policies will earn from where they are."""
    obs = kept.shown(plan, learner)
    next_obs = off_policy.normalize_obs(plan, learner, kept.next_obs[:, : kept.rows])
    reward = kept.reward[:, : kept.rows]
    # Values of about 1, whatever rewards are.
    scaled = (reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-6) * (1 - plan.config.gamma)
    action = off_policy.from_env(plan, kept.action[:, : kept.rows])
    losses, size, updates = [], plan.config.batch_size, int(plan.config.gradient_steps)
    index = (replay.random_bits(seed + 2, learner.updates, updates, size) % kept.rows).unflatten(1, (updates, size))
    for update in range(updates):
        rows = index[:, update]
        batch = dagger.Transition(
            _take(obs, rows), _take(action, rows), _take(scaled, rows), _take(next_obs, rows), _take(kept.terminated, rows)
        )
        losses.append(dagger.evaluate(plan, learner, batch, hp, active)["critic"].squeeze(-1))
    return losses


@torch.no_grad()
def measure(plan: Plan, learner: Learner, kept: Labels, readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns [M] of what training has left: how many passes it was, and how far the policy is from the first round's labels."""
    first = slice(0, kept.round_size)
    obs = off_policy.normalize_obs(plan, learner, kept.obs[:, first])
    own = dagger.act(plan, off_policy.networks(plan, learner), obs, None, None)
    error, there = dagger.distance(plan, own, off_policy.from_env(plan, kept.label[:, first])), kept.answered[:, first]
    return {
        "passes": readings.pop("passes"),
        "learned_share": readings.pop("learned_share"),
        "first_round_error": torch.where(there, error, torch.zeros_like(error)).sum(1) / there.sum(1),
    }
