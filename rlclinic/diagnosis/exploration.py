"""Is exploration what holds a task back? When what is wanted was first met, how surely it is out of reach, and which bonus to try.

Coverage does not answer it (a run may meet 95 % of the states and never the reward), nor does entropy. What does: whether an episode ever
succeeded, or, where nobody reports success, whether any return ever differed from the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from rlclinic.config.algorithms import ADVERSARIAL, ALGORITHMS
from rlclinic.runs.history import History, Series
from rlclinic.runs.outcome import arrived, measure_history

Verdict = Literal["BOTTLENECK", "NOT", "NOT ASSESSABLE"]
FEWEST_EPISODES: Final = 50
"""Episodes of a run below which never having met something says little: the bound on its chance is above 6 %."""
LATE: Final = 0.5
"""The share of a run after which a first success is a late one."""
RISES: Final = 3.0
"""Early deviations by which a return has to rise to count as learning without success."""
LITTLE: Final = 0.05
"""Of the way to the threshold: a return that rises by less only learned what looking around costs."""
FEW_NUMBERS: Final = 6
"""Numbers of an observation up to which its cells can be counted."""
SUCCESS, RETURN, RETURN_STD = "train/roll/success_rate", "train/roll/ep_rew_mean", "train/roll/ep_rew_std"
TARGET: Final = "success in the task itself"
KL: Final = "train/metrics/kl_divergence"
THROWN_AWAY: Final = 1.0
"""KL divergence of one update, in nats, after which a policy has little to do with the one before: usual ones lie below 0.05."""
BEST: Final = "train/roll/ep_rew_best"


@dataclass(frozen=True)
class Meeting:
    """What one run met."""

    run: str
    what: str | None
    """success or a return that differs; None: the log has neither."""
    first: int | None
    """The env step of the first row in which it was met; None: never."""
    env_steps: int
    episodes: int | None
    bound: float | None
    """The largest chance per episode that is compatible with never having met it, 95 % (rule of three)."""
    rises: bool
    """The return rises although nothing succeeds."""
    began: int = 0
    """The env step before which it did not act, but learned from recorded data."""
    thrown_away: float = 0.0
    """The largest KL divergence of an update before it was met, where that is so large that the policy was lost; else 0."""

    @property
    def share(self) -> float | None:
        """The share of its acting after which it was met; None: never."""
        return None if self.first is None else (self.first - self.began) / max(self.env_steps - self.began, 1)


@dataclass(frozen=True)
class Assessment:
    """The answer for runs that belong together."""

    verdict: Verdict
    reason: str
    meetings: tuple[Meeting, ...]
    new_states: float | None
    """States met for the first time per 1,000 env steps at the end, median of the runs; None: not logged."""
    half_life: float | None
    """Env steps in which novelty halved, median of the runs."""
    prescription: Mapping[str, Any] = field(default_factory=dict)
    """Settings to try in a trial; none where no bonus is called for."""
    notes: tuple[str, ...] = ()


def assess(histories: Sequence[History]) -> Assessment:
    """Judge runs of one config."""
    meetings = tuple(_meet(history) for history in histories)
    verdict, reason = _decide(histories, meetings)
    prescription = _prescribe(histories[0]) if verdict == "BOTTLENECK" and histories else {}
    new_states, half_life = (_last(histories, f"train/bonus/{name}") for name in ("new_states", "half_life"))
    notes = _caution(histories, verdict, new_states, prescription)
    return Assessment(verdict, reason, meetings, new_states, half_life, prescription, tuple(notes))


def _meet(history: History) -> Meeting:
    success, returns, deviation = (_values(history, name) for name in (SUCCESS, RETURN, RETURN_STD))
    counted = _values(history, "total_episodes")
    env_steps = int(history.env_steps or (returns.steps[-1] if returns is not None else 0))
    if (target := _find_target(history)) is not None:
        return _meet_target(history, target, env_steps)
    episodes = int(counted.values[-1]) if counted is not None else None
    first, what = None, None
    if success is not None:
        what = "success"
        met = np.flatnonzero(success.values > 0)
        first = int(success.steps[met[0]]) if len(met) else None
    elif returns is not None:
        what = "a return that differs"
        first = _first_difference(returns, deviation, _values(history, BEST), history.threshold)
    bound = 3.0 / episodes if what is not None and first is None and episodes else None
    return Meeting(
        history.id,
        what,
        first,
        env_steps,
        episodes,
        bound,
        success is not None and first is None and _rises(returns, deviation, history.threshold),
        _find_begin(history, counted),
        _throws_away(_values(history, KL), first, env_steps),
    )


def _find_target(history: History) -> str | None:
    """Before the columns of the last task of a curriculum, which is the task itself; None without a curriculum, or where none is."""
    told = [name.split("/") for name in history.series if name.startswith("train/stage/") and name.endswith("/episodes")]
    return f"train/stage/{max(int(parts[2]) for parts in told)}" if told else None


def _meet_target(history: History, target: str, env_steps: int) -> Meeting:
    """What a run with a curriculum met of the task itself: success in easier versions is none in it, nor are their returns its own."""
    success, counted = (_values(history, f"{target}/{name}") for name in ("success_rate", "episodes"))
    played = 0 if counted is None else int(counted.values[-1])
    before = np.empty(0) if counted is None else counted.steps[counted.values == 0]
    met = np.empty(0) if success is None else success.steps[success.values > 0]
    first = int(met[0]) if len(met) else None
    bound = 3.0 / played if first is None and played else None
    began = int(before[-1]) if len(before) else 0
    return Meeting(history.id, TARGET, first, env_steps, played, bound, False, began, _throws_away(_values(history, KL), first, env_steps))


def _find_begin(history: History, episodes: Series | None) -> int:
    """The last row without any episode, of runs that learn from recorded data before they act."""
    if history.settings.get("data.then_online") is not True or episodes is None:
        return 0
    before = episodes.steps[episodes.values == 0]
    return int(before[-1]) if len(before) else 0


def _throws_away(steps: Series | None, first: int | None, env_steps: int) -> float:
    """The largest update in the first half of the run that came before anything was met, if a policy is lost by it."""
    if steps is None:
        return 0.0
    before = steps.values[steps.steps <= min(env_steps / 2 if first is None else first, env_steps / 2)]
    return float(np.nan_to_num(before, posinf=np.inf).max(initial=0.0)) if (before > THROWN_AWAY).any() else 0.0


def _values(history: History, name: str) -> Series | None:
    series = history.series.get(name)
    return series if series is not None and len(series) else None


def _first_difference(returns: Series, deviation: Series | None, best: Series | None, threshold: float | None) -> int | None:
    """The first row in which episodes had different returns, or another mean than before.

    Where a threshold says what is wanted, the first in which the best episode was some of the way ahead of the usual ones at the start:
    what moving about costs differs too, and leads nowhere.
    """
    if threshold is not None and best is not None and threshold > returns.values[0]:
        ahead = np.flatnonzero(best.values > returns.values[0] + LITTLE * (threshold - returns.values[0]))
        return int(best.steps[ahead[0]]) if len(ahead) else None
    tolerance = 1e-6 * max(float(np.abs(returns.values).max()), 1.0)
    moved = np.flatnonzero(np.abs(returns.values - returns.values[0]) > tolerance)
    places = [int(returns.steps[moved[0]])] if len(moved) else []
    if deviation is not None and len(spread := np.flatnonzero(deviation.values > tolerance)):
        places.append(int(deviation.steps[spread[0]]))
    return min(places, default=None)


def _rises(returns: Series | None, deviation: Series | None, threshold: float | None) -> bool:
    if returns is None or len(returns) < 8:
        return False
    early, late = returns.values[: max(len(returns) // 8, 1)], returns.values[-max(len(returns) // 8, 1) :]
    spread = float(np.median(deviation.values[: max(len(deviation) // 8, 1)])) if deviation is not None else float(early.std())
    rise = float(np.median(late) - np.median(early))
    if threshold is not None and rise < LITTLE * (threshold - float(np.median(early))):
        return False
    return bool(rise > RISES * max(spread, 1e-9 + 0.01 * abs(float(np.median(early)))))


def _decide(histories: Sequence[History], meetings: Sequence[Meeting]) -> tuple[Verdict, str]:
    paired = [(meeting, arrived(measure_history(history))) for meeting, history in zip(meetings, histories, strict=True)]
    known = [meeting for meeting in meetings if meeting.what is not None]
    if not known:
        return "NOT ASSESSABLE", "neither returns nor successes of training episodes are logged"
    what, runs = known[0].what, f"{len(known)} run{'s' if len(known) > 1 else ''}"
    never = [meeting for meeting in known if meeting.first is None]
    if sum(solved for _, solved in paired) * 2 > len(histories):
        return "NOT", "the task is solved"
    if sum(meeting.rises for meeting in never) * 2 > len(known):
        return "NOT", "the return rises and no episode succeeds: the reward pays for something else than success"
    # Seeds that met it may have learned: what holds back those that have not is asked of them alone.
    failed = [meeting for meeting, solved in paired if meeting.what is not None and not solved]
    late = [meeting for meeting in failed if meeting.share is None or meeting.share > LATE]
    lost = [meeting for meeting in late if meeting.thrown_away]
    if late and len(lost) * 2 > len(late) and len(late) * 2 > len(failed):
        worst = max(meeting.thrown_away for meeting in lost)
        return "NOT ASSESSABLE", (
            f"{what} was not met, but an update changed the policy by a KL divergence of {worst:.2g} before it could look around: "
            "mend the size of its steps first"
        )
    if len(never) * 2 > len(failed):
        few = [meeting for meeting in never if meeting.episodes is None or meeting.episodes < FEWEST_EPISODES]
        if few:
            seen = "an unknown number of" if few[0].episodes is None else str(few[0].episodes)
            return "NOT ASSESSABLE", f"{seen} episodes: {what} was not met, but {FEWEST_EPISODES} are needed to say more"
        worst = max(meeting.bound or 1.0 for meeting in never)
        return "BOTTLENECK", f"{what} was never met by {len(never)} of {runs}: its chance is below {worst:.2g} per episode (95 %)"
    first = sorted(meeting.share for meeting in known if meeting.share is not None)
    middle = first[len(first) // 2]
    at = sorted(meeting.first for meeting in known if meeting.first is not None)[len(first) // 2]
    if middle > LATE:
        short = [meeting.episodes for meeting in known if meeting.episodes is not None and meeting.episodes < FEWEST_EPISODES]
        if len(short) * 2 > len(known):
            seen = f"{what} was first met after {at:,} env steps, {middle:.0%} of the run"
            return "NOT ASSESSABLE", f"{seen}, which has {max(short)} episodes: {FEWEST_EPISODES} are needed to call that late"
        return "BOTTLENECK", f"{what} was first met after {at:,} env steps, {middle:.0%} of the run"
    return "NOT", f"{what} was first met after {at:,} env steps, {middle:.0%} of the run: there is something to learn from"


def _prescribe(history: History) -> dict[str, Any]:
    """A bonus and its coefficient, from what is observed and what returns are worth."""
    if history.settings.get("bonus.kind") is not None:
        return {"bonus.coef": round(3 * float(history.settings.get("bonus.coef", 0.05)), 4) or 0.1}
    if history.algo == "q_learning" and history.settings.get("algo.exploration") != "optimistic":
        return {"algo.exploration": "optimistic"}
    if not _takes_bonus(history.algo):
        return {}
    size, flags = history.settings.get("about.obs_size"), history.settings.get("about.obs_flags")
    few = size is not None and (size <= FEW_NUMBERS or flags == size)
    span = history.settings.get("spec.return_range")
    worth = 1.0
    # On-policy, a bonus is added to rewards that are normalized already; a replay holds both as they came.
    normalized = history.settings.get("env.normalize_reward") is True and history.algo != "dqn"
    if not normalized and isinstance(span, Sequence) and len(span) == 2:
        worth = max(abs(float(span[1]) - float(span[0])), 1e-6)
    return {"bonus.kind": "count" if few else "rnd", "bonus.coef": float(f"{0.1 * worth:.1g}")}


def _takes_bonus(algo: str | None) -> bool:
    if algo is None or algo not in ALGORITHMS or algo in ADVERSARIAL:
        return False
    return algo == "dqn" or ALGORITHMS[algo].loop == "on_policy"


def _last(histories: Sequence[History], name: str) -> float | None:
    values = [float(series.values[-1]) for history in histories if (series := _values(history, name)) is not None]
    return float(np.median(values)) if values else None


def _caution(histories: Sequence[History], verdict: Verdict, new_states: float | None, prescription: Mapping[str, Any]) -> list[str]:
    notes = []
    if new_states is None and histories and histories[0].source == "rlclinic" and _takes_bonus(histories[0].algo):
        notes.append("new states are not logged; bonus.kind=count with bonus.coef=0 logs them and changes nothing else")
    if new_states is not None and new_states > 900:
        notes.append("nearly every state is new: noise in observations, or other levels, keep a bonus high for ever (a noisy television)")
    size = histories[0].settings.get("about.obs_size") if histories else None
    kind = histories[0].settings.get("bonus.kind") if histories else None
    if kind in ("rnd", "noveld", "icm") and size is not None and int(size) <= FEW_NUMBERS:
        notes.append(f"observations of {int(size)} numbers are soon predicted everywhere: bonus.kind=count goes on telling them apart")
    if verdict == "BOTTLENECK":
        if not prescription and histories[0].algo is not None:
            notes.append(f"{histories[0].algo} takes no bonus for new states: starts nearer to the goal, or a potential, may help it")
        elif any(name.startswith("bonus.") for name in prescription):
            notes.append("where every episode is another level, prefer bonus.kind=episodic_count or noveld")
    return notes
