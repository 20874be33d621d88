"""What a reward pays for: `reward check` of an environment (imports Gymnasium and runs its code), `reward balance` of runs."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.diagnosis import reward_balance
from rlclinic.errors import UsageError, nearest
from rlclinic.ops.diagnose.diagnose import read
from rlclinic.ops.diagnose.requests import RewardCheckRequest
from rlclinic.report.models import BalancedTerm, RewardBalanceReport, RewardRemark, RewardReport, RewardTerm, TermConflict
from rlclinic.runs.record import Group


def check_reward(request: RewardCheckRequest, env_args: Mapping[str, Any] | None = None) -> RewardReport:
    """Play at random, and judge what was paid; `env_args` are the environment's."""
    from rlclinic.rewards import check
    from rlclinic.training.envs.examine import rewards
    from rlclinic.training.envs.examine.target import factory_of

    trust.refuse_where_nothing_is_run(request.env)
    if trust.names_code(request.env):
        trust.approve(request.env)
    env = factory_of(request.env, dict(env_args or {}))()
    try:
        seen = rewards.record(env, request.steps, target=request.env)
    finally:
        getattr(env, "close", lambda: None)()
    if request.task is not None and request.task not in seen.terms:
        offered = nearest(request.task, seen.terms) or list(seen.terms)
        raise UsageError(
            f'{request.env} reports no term {request.task} in info["reward_terms"].\n'
            "  It could not be told which part of the reward is the task.\n"
            f"  Try: {' or '.join(offered) or 'an environment that reports its terms (rlclinic.rewards.Rewards does)'}"
        )
    found = check.check(seen, request.gamma, request.task)
    terms = []
    for name, fit in found.potentials.items():
        best, kept = found.losses.get(name, (None, None))
        residual = None if math.isnan(fit.residual) else fit.residual
        terms.append(RewardTerm(name=name, potential=fit.answer, residual=residual, why=fit.why, best=best, kept=kept))
    return RewardReport(
        env=request.env,
        gamma=request.gamma,
        steps=len(seen.reward),
        episodes=len(np.unique(seen.episode)),
        terminations=int(seen.terminated.sum()),
        density=found.density,
        scale_median=found.scale[0],
        scale_max=found.scale[1],
        terms=terms,
        remarks=[RewardRemark(**asdict(remark)) for remark in found.remarks],
    )


def balance_reward(target: str = "@last", runs_dir: Path = Path("runs"), truth: str | None = None) -> RewardBalanceReport:
    """Weigh the terms that a group, a run, or another framework's folder or file has logged; `truth` says how well the task is done."""
    owner, groups = read(target, runs_dir, None, None, ())
    if not groups or not groups[0]:
        raise UsageError(f"{target} has no runs that could be read.\n  There is nothing to weigh.\n  Try: ", Action("runs list"))
    if truth is not None and not all(truth in history.series for history in groups[0]):
        logged = list(dict.fromkeys(name for history in groups[0] for name in history.series))
        raise UsageError(
            f"{target} has not logged {truth}.\n  The terms would be weighed beside nothing.\n"
            f"  Try: {' or '.join(nearest(truth, logged)) or 'train/info/NAME/last, of a number that env.log_info=[NAME] logs'}"
        )
    balance = reward_balance.weigh(groups[0], truth)

    def known(value: float) -> float | None:
        return None if math.isnan(value) else value

    terms = [
        BalancedTerm(
            name=term.name,
            first_share=known(term.share[0]),
            last_share=known(term.share[1]),
            first_return=known(term.returns[0]),
            last_return=known(term.returns[1]),
            with_truth=term.with_truth,
            potential=term.potential,
        )
        for term in balance.terms
    ]
    return RewardBalanceReport(
        target=owner.id if owner is not None else target,
        verdict=balance.verdict,
        reason=balance.reason,
        truth=balance.truth,
        terms=terms,
        conflicts=[TermConflict(**asdict(conflict)) for conflict in balance.conflicts],
        rest=balance.rest,
        next=Action("sensitivity", owner.id, terms=True, factors="2", truth=truth) if isinstance(owner, Group) and len(terms) > 1 else None,
    )
