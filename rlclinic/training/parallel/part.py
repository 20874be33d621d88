"""A rank's part of a cohort: some of every member's environments, all weights, and its share of every gradient.

Each method that exchanges something is called by all ranks at the same time (see `engine` and `follower`).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from time import perf_counter
from typing import Any, Final

import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.training.actors.actor import SENT
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import rollouts
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.engines.cuda_graphs import products
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.fast import gradients
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Estimates, Iteration, Learner, Plan, Position
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets import encoders
from rlclinic.training.optim import OptimizerState
from rlclinic.training.parallel import shares
from rlclinic.training.parallel.layer_shares import LayerShares
from rlclinic.training.parallel.ranks import Ranks, Tensors
from rlclinic.training.sentinels import fingerprints

COMMON: Final = ("clock", "resumes", "taken", "info")
"""What of an environment's state is a member's, not each env's."""
ESTIMATED: Final = ("advantage", "returns", "value", "weight")
"""What travels of a rank's estimates."""
CHECKED_ROWS: Final = 256
"""Rows of a rollout whose gradient is computed by all ranks and by rank 0 alone: the others wait for it."""
FAILURE_BYTES: Final = 1024
"""Of an environment's error, what other ranks are told."""


class RankPart:
    """What one rank has and does."""

    def __init__(self, ranks: Ranks, config: Config, seeds: list[int], weights: Sequence[dict[str, float]]) -> None:
        from rlclinic.training import assembly  # which makes parts

        self.ranks, self.config, self.seeds = ranks, config, seeds
        torch.backends.cudnn.allow_tf32 = config.run.precision == "tf32"  # PyTorch's own default rounds convolutions to ten bits
        self.share = shares.envs(config.env.n_envs, ranks.rank, ranks.world)
        self.env: VecEnv = assembly.make_own_env(config, seeds, str(ranks.device), None, weights, self.share)
        self.position = Position(torch.empty(0))
        self.seed = torch.tensor(seeds, dtype=torch.int64, device=ranks.device).view(-1, 1, 1)
        self.plan: Plan
        self.busy = self.waited = 0.0
        """Seconds of iterations since the last testimony: of work, and inside of collectives."""
        self._rows: list[int] = []
        self._last: tuple[Iteration, Hyperparameters, int] | None = None
        self.layers: LayerShares | None = None
        """Where weights are shared out: how."""
        self._good: Tensor | None = None
        self.failures: dict[int, str] = {}
        """Members whose environment broke, on any rank, and how."""

    def set_plan(self, corrections: Collection[str], engine: str) -> None:
        """Algorithm, network and optimizer, as rank 0 has chosen them."""
        from rlclinic.training import assembly

        plan = assembly.with_engine(assembly.plan_for(self.config, self.env, corrections), engine)
        assert isinstance(plan, Plan)
        self.plan = plan
        self.layers = LayerShares(plan.policy.layout, self.ranks) if self.config.run.shard_weights else None
        self.ranks.in_order = "ranks_summed_in_order" in corrections

    # ── environments ──

    def reset(self) -> tuple[Tensor, Tensor | None]:
        """Start all episodes anew; the first observations and action masks of all envs."""
        self.position = Position(self.env.reset(), self.env.action_mask)
        return self._join_position()

    def state(self) -> Tensors:
        """The state of all environments, as one process would save it."""
        every = self.ranks.gather_tensors("environment states", self.env.state())
        return {name: own if name in COMMON else torch.cat([each[name] for each in every], 1) for name, own in every[0].items()}

    def load_state(self, state: Tensors) -> tuple[Tensor, Tensor | None]:
        """Go on from the state of all environments; what to act on next, of all of them."""
        own = {name: tensor if name in COMMON else tensor[:, self.share] for name, tensor in state.items()}
        self.position = Position(self.env.load_state(own), self.env.action_mask)
        return self._join_position()

    def _join_position(self) -> tuple[Tensor, Tensor | None]:
        found = self._join("observations", {"obs": self.position.obs} | _given({"mask": self.position.action_mask}), 1)
        return found["obs"], found.get("mask")

    def _join(self, name: str, own: Tensors, axis: int) -> Tensors:
        """Tensors of all envs, which lie along an axis, in their order."""
        every = self.ranks.gather_tensors(name, own)
        return {key: torch.cat([each[key] for each in every], axis) for key in own}

    # ── an iteration ──

    def iterate(self, learner: Learner, hp: Hyperparameters, active: Tensor | None, iteration: int, clock: dict[str, float]) -> Iteration:
        """One iteration of every member: play, put rollouts together, learn. What comes out is of all envs, and the same on all ranks."""
        ranks, plan = self.ranks, self.plan
        started, waited, env_before = perf_counter(), ranks.waited, clock["env"]
        begins = learner if self.layers is None else replace(learner, flat=self._own_weights(learner.flat))
        playing = self.join_to_play(begins)
        ranks.pulse.does("playing")
        own = on_policy.collect(plan, playing, self.env, self.position, self.seed, iteration, clock, first_env=self.share.start)
        clock["act"] += perf_counter() - started - (clock["env"] - env_before)
        collected = perf_counter()
        ranks.pulse.does("estimating advantages")
        rollout, whole, raw = self.join_rollouts(playing, own, *on_policy.assess(plan, playing, own, hp))
        del playing
        whole = on_policy.scale(plan, whole)
        ranks.pulse.does("learning")
        after, readings, last = on_policy.learn(plan, begins, whole, hp, active, self.seed, iteration, rollout, self.update_step)
        if self.layers is not None:
            broken = ~on_policy.find_finite(after, readings)
            self._good = ranks.sum("whether all is finite", broken.float()) == 0
            joined = self.layers.join_at_first("weights", after.flat)
            after = after if joined is None else replace(after, flat=joined)  # rank 0 evaluates, and writes checkpoints
        ended, exchanged = perf_counter(), ranks.waited - waited
        clock["learn"] += ended - collected - exchanged
        clock["exchange"] = clock.get("exchange", 0.0) + exchanged
        self.busy += ended - started - exchanged
        self.waited += exchanged
        found = Iteration(learner, rollout, whole, raw, after, readings, last)
        self._last = found, hp, iteration
        return found

    def finish(self, found: Iteration, hp: Hyperparameters, mask: Tensor) -> Learner:
        """The learner after an iteration, as rank 0 has it: updates that are not finite taken back, normalizers moved on."""
        good = on_policy.find_finite(found.after, found.readings) if self._good is None else self._good
        after = found.after if bool(good.all()) else on_policy.take_back(found.before, found.after, good)
        return on_policy.update_normalizers(self.plan, after, found.rollout, hp, mask)

    def join_rollouts(self, learner: Learner, own: Rollout, batch: Batch, raw: Estimates) -> tuple[Rollout, Batch, Estimates]:
        """The rollout of all environments, its advantages and targets, out of every rank's own."""
        grid = own.reward.shape
        sent = _given({name: getattr(own, name) for name in (*SENT, "value", "said")})
        estimates = {name: each.view(grid) for name in ESTIMATED if (each := getattr(batch, name)) is not None}
        sent |= {f"estimate.{name}": each for name, each in estimates.items()} | {"estimate.reward": raw.reward.view(grid)}
        last = {"last.obs": self.position.obs} | _given({"last.mask": self.position.action_mask})
        broke = torch.tensor([index in self.env.failures for index in range(grid[0])], device=own.reward.device).view(-1, 1, 1)
        sent |= {"env.broke": broke} | {name: each.unsqueeze(1) for name, each in last.items()}
        every = self._join("rollouts", sent, 2)
        self._hear_failures(every["env.broke"].flatten(1))
        steps = {name: each for name, each in every.items() if "." not in name}
        obs = steps["obs"]
        rollout = Rollout(
            **steps,  # type: ignore[arg-type]
            following=torch.cat([obs[:, 1:], every["last.obs"]], 1),
            net_obs=on_policy.normalize_obs(self.plan, learner, obs),
            net_next_obs=on_policy.normalize_obs(self.plan, learner, steps["next_obs"]),
        )
        self.here = every["last.obs"].squeeze(1), every["last.mask"].squeeze(1) if "last.mask" in every else None
        rows = rollouts.rows
        advantage = rows(every["estimate.advantage"])
        whole = Batch(
            obs=rows(rollout.net_obs),
            action=rows(rollout.action),
            log_prob=rows(rollout.log_prob),
            advantage=advantage,
            returns=rows(every["estimate.returns"]),
            value=rows(every["estimate.value"]),
            weight=rows(every["estimate.weight"]) if "estimate.weight" in every else None,
            action_mask=None if rollout.action_mask is None else rows(rollout.action_mask),
        )
        return rollout, whole, Estimates(advantage, rows(every["estimate.reward"]))

    def _hear_failures(self, broke: Tensor) -> None:
        """Have every rank know what its environments said that broke; broke: which members', on which rank, [M, world]."""
        if all(member in self.failures for member in broke.any(1).nonzero().flatten().tolist()):
            return
        text = {member: str(error).encode()[:FAILURE_BYTES] for member, error in self.env.failures.items()}
        own = [list(text.get(member, b"").ljust(FAILURE_BYTES, b"\0")) for member in range(len(broke))]
        every = self.ranks.gather("failures", torch.tensor(own, dtype=torch.uint8, device=broke.device)).cpu()
        for rank, member in broke.T.nonzero().tolist():
            said = bytes(every[rank, member].tolist()).rstrip(b"\0").decode(errors="replace")
            self.failures.setdefault(member, f"rank {rank}: {said}")

    # ── a gradient step ──

    def update_step(
        self, plan: Plan, flat: Tensor, state: OptimizerState, batch: Batch, hp: Hyperparameters, active: Tensor | None
    ) -> tuple[Tensor, OptimizerState, Tensor | None, Tensors]:
        """One gradient step on a minibatch, of which every rank differentiates its own rows."""
        if not self._shares_optimizer:
            grad, readings = self.average_gradient(flat, batch, hp)
            flat, state, active = on_policy.apply_gradient(plan, flat, state, grad, readings, batch.weight, hp, active)
            return flat, state, active, readings
        grad, readings = self._scatter_gradient(flat, batch, hp)
        mine, width = self._own_weights(flat), plan.policy.layout.width
        stepped = self._own_numbers(hp, width)
        mine, state, active = on_policy.apply_gradient(plan, mine, state, grad, readings, batch.weight, stepped, active)
        return (mine if self.layers is not None else self._join_weights("weights", mine, width)), state, active, readings

    def own_gradient(self, flat: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, Tensors]:
        """This rank's share of a minibatch's gradient and of its readings: summed over ranks, they are the whole minibatch's."""
        rows = shares.rows(batch.log_prob.shape[1], self.ranks.rank, self.ranks.world)
        self._rows.append(rows.stop - rows.start)
        own = Batch(*(None if field is None else field[:, rows] for field in batch))  # type: ignore[arg-type]
        if batch.weight is None or own.weight is None:
            share: Tensor | float = own.log_prob.shape[1] / batch.log_prob.shape[1]
        else:
            # A mean over the rows that count: of the whole minibatch, not of the share.
            share = own.weight.sum(1, keepdim=True).clamp(min=1.0) / batch.weight.sum(1, keepdim=True).clamp(min=1.0)
        if self.layers is not None:
            # Already summed over ranks: layer by layer, on the way back.
            with products(tf32=self.plan.precision == "tf32"):
                grad, readings = self.layers.gradient(self.plan, self._own_weights(flat), own, hp, share)
        else:
            with products(tf32=self.plan.precision == "tf32"):
                grad, readings = gradients.gradient(self.plan, flat, own, hp)
        with torch.no_grad():
            found = {}
            for name, reading in readings.items():
                if reading.shape[1] == 1:
                    found[name] = reading * share
                else:  # rows [M, B]: each in its own place
                    found[name] = reading.new_zeros(reading.shape[0], batch.log_prob.shape[1])
                    found[name][:, rows] = reading
            return (grad if self.layers is not None else grad * share), found

    def average_gradient(self, flat: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, Tensors]:
        """The gradient [M, P] of a whole minibatch and its readings: one message."""
        grad, readings = self.own_gradient(flat, batch, hp)
        with torch.no_grad():
            buffer = self.ranks.sum("gradient", torch.cat([grad, *readings.values()], 1))
            grad, *parts = buffer.split([grad.shape[1], *(each.shape[1] for each in readings.values())], 1)
            found = dict(zip(readings, parts, strict=True))
            grad = grad.contiguous()
            found["grad_squares"] = torch.cat([part.sum(1, keepdim=True) for part in (grad * grad).split(self.plan.policy.parts, 1)], 1)
        return grad, found

    # ── a share of the optimizer ──

    def _scatter_gradient(self, flat: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, Tensors]:
        """The gradient of this rank's own weights [M, S], of the whole minibatch, and the readings of the whole minibatch."""
        grad, readings = self.own_gradient(flat, batch, hp)
        with torch.no_grad():
            if self.layers is not None:
                return self._sum_readings(grad, self.layers.squares(grad, self.plan.policy.parts), readings)
            members, world = len(grad), self.ranks.world
            padded = torch.nn.functional.pad(grad, (0, self._size(grad.shape[1]) * world - grad.shape[1]))
            own = self.ranks.scatter_sum("gradient", padded.view(members, world, -1).transpose(0, 1).contiguous())
            first = shares.weights(grad.shape[1], self.ranks.rank, world).start
            ends = torch.tensor([0, *self.plan.policy.parts], device=own.device).cumsum(0).sub(first).clamp(0, own.shape[1]).tolist()
            squares = torch.stack([(own[:, a:b] * own[:, a:b]).sum(1) for a, b in pairwise(ends)], 1)
            return self._sum_readings(own, squares, readings)

    def _sum_readings(self, own: Tensor, squares: Tensor, readings: Tensors) -> tuple[Tensor, Tensors]:
        buffer = self.ranks.sum("readings", torch.cat([squares, *readings.values()], 1))
        parts = buffer.split([squares.shape[1], *(each.shape[1] for each in readings.values())], 1)
        return own, dict(zip(("grad_squares", *readings), parts, strict=True))

    @property
    def _shares_optimizer(self) -> bool:
        return self.config.run.shard_optimizer or self.layers is not None

    def _size(self, width: int) -> int:
        own = shares.weights(width, self.ranks.rank, self.ranks.world)
        return own.stop - own.start

    def _own_weights(self, flat: Tensor) -> Tensor:
        """This rank's share of [M, P] as [M, S], where it is not that already; what lies beyond the last weight is 0."""
        if self.layers is not None:
            return flat if flat.shape[1] == self.layers.width else self.layers.take(flat)
        width, own = flat.shape[1], shares.weights(flat.shape[1], self.ranks.rank, self.ranks.world)
        return torch.nn.functional.pad(flat[:, own], (0, max(0, own.stop - max(width, own.start)))).contiguous()

    def _join_weights(self, name: str, mine: Tensor, width: int) -> Tensor:
        if self.layers is not None:
            return self.layers.join(name, mine)
        return self.ranks.gather(name, mine).transpose(0, 1).reshape(len(mine), -1)[:, :width].contiguous()

    def _own_numbers(self, hp: Hyperparameters, width: int) -> Hyperparameters:
        if hp.step_size.shape[1] == 1:
            return hp
        return Hyperparameters(**{**vars(hp), "step_size": self._own_weights(hp.step_size.expand(-1, width))})

    def take_optimizer(self, learner: Learner) -> Learner:
        """The learner with this rank's share of the optimizer's state, where it is shared out."""
        if not self._shares_optimizer or learner.optimizer.mean.shape != learner.flat.shape:
            return learner
        state = learner.optimizer
        return replace(learner, optimizer=OptimizerState(self._own_weights(state.mean), self._own_weights(state.square), state.steps))

    def share_out(self, learner: Learner) -> Learner:
        """The learner with this rank's shares alone of whatever is shared out."""
        learner = self.take_optimizer(learner)
        return learner if self.layers is None else replace(learner, flat=self._own_weights(learner.flat))

    def join_to_play(self, learner: Learner) -> Learner:
        """The learner with all weights, which every env step needs: for that long, and while nothing is differentiated."""
        return learner if self.layers is None else replace(learner, flat=self.layers.join("weights", learner.flat))

    def scatter(self, found: Tensors | None, names: list[str]) -> Tensors:
        """This rank's share of what rank 0 (found) has of these names, where weights are shared out."""
        if self.layers is None:
            return {}
        return {name: self.layers.scatter(name, None if found is None else found[name], len(self.seeds)) for name in names}

    def join_optimizer(self, learner: Learner) -> Learner:
        """The inverse: all of it, as a checkpoint has it; where weights are shared out on rank 0 alone, which writes it."""
        state, width = learner.optimizer, self.plan.policy.layout.width
        if state.mean.shape[1] == width:
            return learner
        if self.layers is not None:
            joined = [self.layers.join_at_first("optimizer", each) for each in (state.mean, state.square)]
            mean, square = (own if whole is None else whole for own, whole in zip(state, joined, strict=False))
        else:
            mean, square = (self._join_weights("optimizer", each, width) for each in (state.mean, state.square))
        return replace(learner, optimizer=OptimizerState(mean, square, state.steps))

    # ── testimony ──

    def testify(self, learner: Learner, *, costly: bool) -> list[Tensors]:
        """What every rank says of itself since the last time: its time, its rows, and, where costly, its weights and the gradient."""
        members = len(learner.flat)
        numbers = {"busy": self.busy, "waited": self.waited, "rows": float(sum(self._rows)) / max(len(self._rows), 1)}
        own = {name: torch.tensor([value], dtype=torch.float64) for name, value in numbers.items()}
        self.busy, self.waited, self._rows = 0.0, 0.0, []
        if costly:
            normalizers = fingerprints.of_normalizers(learner)
            if self.layers is None:
                own["weights"] = fingerprints.of(learner.flat)
            else:
                layers = ((one.start, layer) for one, layer in self.layers.gather("weights", self._own_weights(learner.flat)))
                gathered = fingerprints.of_pieces(members, layers, learner.flat.device)
                # What rank 0 has is beside what the others have of it.
                own["weights"] = gathered if self.ranks.rank else fingerprints.of(learner.flat)
            own["normalizers"] = torch.zeros(members, dtype=torch.float64) if normalizers is None else normalizers
            own["gradient_error"] = self._check_gradient().double()
        return [{name: each.cpu() for name, each in one.items()} for one in self.ranks.gather_tensors("testimony", own)]

    def _check_gradient(self) -> Tensor:
        """How far the gradient of some rows is off, [M], when it is put together by all ranks: beside what a single process gets.

        Every rank has the whole rollout, so rank 0 can do alone what all do together.
        """
        assert self._last is not None
        found, hp, _ = self._last
        rows = min(self.plan.batch_rows, CHECKED_ROWS)
        # From all over the rollout: its first rows alone are the first steps of every environment.
        chosen = slice(0, None, self.plan.rollout_size // rows)
        batch = Batch(*(None if field is None else field[:, chosen][:, :rows] for field in found.whole))  # type: ignore[arg-type]
        if self.plan.scales_minibatches:
            batch = batch._replace(advantage=self.plan.standardize(batch.advantage, batch.weight))
        with self._in_float32():
            if self._shares_optimizer:
                own, _ = self._scatter_gradient(found.before.flat, batch, hp)
                if self.layers is None:
                    together: Tensor | None = self._join_weights("gradient", own, self.plan.policy.layout.width)
                else:
                    together = self.layers.join_at_first("gradient", own)
            else:
                together, _ = self.average_gradient(found.before.flat, batch, hp)
            self._rows.pop()
            if self.ranks.rank or together is None:
                return found.before.flat.new_zeros(len(found.before.flat))
            alone, _ = gradients.gradient(self.plan, found.before.flat, batch, hp)
        return (together - alone).norm(dim=1) / alone.norm(dim=1).clamp(min=1e-12)

    @contextmanager
    def _in_float32(self) -> Iterator[None]:
        """Whatever is learned in: who sums what is looked at, and numbers of few bits are rounded elsewhere in each rank's share."""
        plan, convolutions = self.plan, torch.backends.cudnn.allow_tf32
        exact = {} if plan.policy.encoder is None else {"encoder": encoders.in_float32(plan.policy.encoder)}
        self.plan = replace(plan, precision="float32", policy=replace(plan.policy, **exact))  # type: ignore[arg-type]
        torch.backends.cudnn.allow_tf32 = False
        try:
            yield
        finally:
            self.plan, torch.backends.cudnn.allow_tf32 = plan, convolutions

    def find_foreign_actions(self) -> Tensor:
        """The share of the last rollout's actions, [M], that were not drawn with the random numbers of their own environment."""
        assert self._last is not None
        rollout, iteration, policy = self._last[0].rollout, self._last[2], self.plan.policy.distribution
        steps, n_envs = rollout.reward.shape[1:]
        step = torch.arange(steps, device=self.seed.device).view(1, -1, 1) + iteration * steps
        noise = policy.noise(self.seed, step, torch.arange(n_envs, device=self.seed.device).view(1, 1, -1))
        other = policy.sample(rollout.dist, noise) != rollout.action
        return (other if other.dim() == 3 else other.any(-1)).double().mean((1, 2))

    def close(self) -> None:
        """Free the environments."""
        self.env.close()


def name_learner(learner: Learner) -> Tensors:
    """Everything that learning has changed, by name: what other ranks are sent."""
    found = {"flat": learner.flat, **{f"optimizer.{name}": each for name, each in learner.optimizer._asdict().items()}}
    for part in ("obs_stats", "reward_stats"):
        if (stats := getattr(learner, part)) is not None:
            found |= {f"{part}.{name}": each for name, each in stats._asdict().items()}
    return found if learner.reward_carry is None else {**found, "reward_carry": learner.reward_carry}


def read_learner(found: Tensors) -> Learner:
    """The inverse."""

    def moments(part: str) -> Moments | None:
        return Moments(*(found[f"{part}.{name}"] for name in Moments._fields)) if f"{part}.count" in found else None

    state = OptimizerState(*(found[f"optimizer.{name}"] for name in OptimizerState._fields))
    return Learner(found["flat"], state, moments("obs_stats"), moments("reward_stats"), found.get("reward_carry"))


def _given(several: dict[str, Any]) -> Tensors:
    return {name: each for name, each in several.items() if each is not None}
