"""Exploration and rewards: does a bonus find what plain learning does not, what does it cost, and is the check of potentials right?

python -m benchmarks.tasks [--only shapings|rooms|finds|costs]

Runs are one cohort of seeds 0, 1, …, in this process. Costs are the time within the bonus and in checkpoints, beside all the rest of the
run: of the processor, so that other work on the machine does not count, and by the wall clock, for a machine that does nothing else.
Shapings: for finite environments, of FrozenLake and of random processes; of vectors, of random transitions in CartPole and Acrobot, each as
a potential, without gamma, kept at the end, paid for progress only, and with a term that is none. Those of other kinds are in
`benchmarks.shapings`.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks import provenance, shapings, shapings_second
from rlclinic.config import Config, load
from rlclinic.rewards import Process, Shaped, fit_potential, fit_table
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import trainer
from rlclinic.training.__main__ import train_runs
from rlclinic.training.bonuses import pay

COMMAND = "python -m benchmarks.tasks"
GAMMA = 0.99
FRESH = 20_261_117
"""Draws potentials that no threshold of the check was chosen by."""
NEW = 20_261_118
"""The same, drawn after FRESH had been looked at and before the check was changed."""
SMOOTH = ("smooth",)
OTHER = ("distance", "size", "step", "product", "hill", "angle")
FOLDER = provenance.SCRATCH / "tasks"


def read_clocks() -> np.ndarray:
    """Processor seconds and seconds by the wall clock."""
    return np.array([time.process_time(), time.perf_counter()])


def train(config: Config, seeds: int) -> tuple[list[Run], np.ndarray]:
    """Runs of so many seeds, and the seconds that they took: of the processor, by the wall clock."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    configs = [config.model_copy(update={"seed": seed}) for seed in range(seeds)]
    runs = list(Store(FOLDER / "runs").create_group(configs).runs)
    started = read_clocks()
    train_runs(runs)
    return runs, read_clocks() - started


def reach(ref: str, budget: int, seeds: int, *settings: str) -> list[int | None]:
    """The env step at which each seed reached its threshold; None: not within the budget."""
    config = load(ref, [*settings, f"run.max_env_steps={budget}", "run.stop_at_threshold=true"]).config
    return [run.status.threshold_reached_at for run in train(config, seeds)[0]]


def measure_cost(repeats: int, steps: int, *bonus: str) -> np.ndarray:
    """By how much a bonus lengthens PPO on CartPole, 8 seeds, in percent of processor and of wall time, in each repeat: [R, 2].

    The time within the bonus itself and that of writing checkpoints, which it makes larger, are taken by clocks inside the runs: whole
    runs differ by more than ten percent on a machine that does other things.
    """
    shares = []
    for _ in range(repeats):
        total, paying, saving = [], [], []
        for settings in ((), bonus):
            config = load("CartPole-v1:ppo", [*settings, f"run.max_env_steps={steps}", "run.eval_every_env_steps=none"]).config
            with clock(pay, "pay") as inside, clock(trainer, "save_members") as written:
                total.append(train(config, 8)[1])
            paying.append(sum(inside, np.zeros(2)))
            saving.append(sum(written, np.zeros(2)))
        more = paying[1] + saving[1] - saving[0]
        shares.append(100 * more / (total[1] - more))
        print(bonus, "processor, wall:", shares[-1].round(2), flush=True)
    return np.array(shares)


@contextmanager
def clock(module: Any, name: str) -> Iterator[list[np.ndarray]]:
    """The seconds of every call of a module's function."""
    function, seconds = getattr(module, name), []

    def timed(*args: Any, **kwargs: Any) -> Any:
        started = read_clocks()
        try:
            return function(*args, **kwargs)
        finally:
            seconds.append(read_clocks() - started)

    setattr(module, name, timed)
    try:
        yield seconds
    finally:
        setattr(module, name, function)


def random_process(random: np.random.Generator) -> Process:
    """Twelve states of which two end an episode, three actions, three outcomes each."""
    rows = [(s, a, p, int(random.integers(12))) for s in range(10) for a in range(3) for p in random.dirichlet(np.ones(3))]
    state, action, probability, following = (np.array(column) for column in zip(*rows, strict=True))
    return Process(state, action, probability, following, following >= 10, 12, 3, np.eye(12)[0])


def check_finite() -> tuple[int, int]:
    """(right answers, all) of shapings of finite environments."""
    lake: Any = gym.make("FrozenLake-v1", map_name="8x8").unwrapped
    random = np.random.default_rng(0)
    processes = [Process.of_table(lake.P, lake.initial_state_distrib)[0], *(random_process(random) for _ in range(19))]
    right = total = 0
    for process in processes:
        phi = random.normal(size=process.states)
        for name, paid in shape(phi[process.state], phi[process.next_state], process.terminated, random).items():
            fit = fit_table(Shaped(process.state, process.next_state, paid, process.terminated), GAMMA)
            right, total = right + ((fit.answer == "yes") == (name == "potential")), total + 1
    return right, total


def shape(before: np.ndarray, after: np.ndarray, terminated: np.ndarray, random: np.random.Generator) -> dict[str, np.ndarray]:
    """One potential as it should be, and with what people do to it."""
    alive = ~terminated
    right = GAMMA * after * alive - before
    return {
        "potential": right,
        "without gamma": after * alive - before,
        "kept at the end": GAMMA * after - before,
        "progress only": np.maximum(after - before, 0.0),
        "with something else": right + 0.2 * right.std() * random.normal(size=len(right)),
    }


def play(env_id: str, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observations, what followed, and terminations of random play; Acrobot's from states of every energy, or none would end."""
    env: Any = gym.make(env_id).unwrapped
    env.action_space.seed(0)
    random = np.random.default_rng(0)
    rows: list[tuple[Any, Any, bool]] = []
    while len(rows) < steps:
        obs, _ = env.reset(seed=len(rows))
        if env_id == "Acrobot-v1":
            env.state = random.uniform([-3, -3, -6, -9], [3, 3, 6, 9])
            obs = env._get_ob()
        for _ in range(40):
            following, _, terminated, _, _ = env.step(env.action_space.sample())
            rows.append((obs, following, bool(terminated)))
            obs = following
            if terminated:
                break
    now, then, ended = zip(*rows, strict=True)
    return np.array(now), np.array(then), np.array(ended)


def draw_potential(random: np.random.Generator, width: int, kind: str) -> Callable[[np.ndarray], np.ndarray]:
    """A potential of scaled observations [B, D]."""
    weights, bend, wave = random.normal(size=(3, width))
    if kind == "smooth":
        return lambda x: x @ weights + 0.5 * (x**2) @ bend + np.cos(x @ wave / 2)
    place, pair = random.normal(size=width), random.permutation(width)[:2]
    return {
        "distance": lambda x: -np.linalg.norm(x[:, pair] - place[pair], axis=1),
        "size": lambda x: -np.abs(x) @ np.abs(weights),
        "step": lambda x: np.tanh(x @ weights),
        "product": lambda x: x[:, pair[0]] * x[:, pair[1]] + x @ weights,
        "hill": lambda x: np.exp(-0.25 * ((x - place) ** 2).sum(1)),
        "angle": lambda x: -np.abs(x[:, pair[0]]),
    }[kind]


def check_vectors(steps: int, potentials: int, seed: int, kinds: Sequence[str] = ("smooth",)) -> tuple[int, int, int, int]:
    """(false yes, undecided, wrong no, all) of shapings of vectors, whose potentials a seed draws."""
    random = np.random.default_rng(seed)
    safe = undecided = wrong = total = 0
    for env_id in ("CartPole-v1", "Acrobot-v1"):
        now, then, ended = play(env_id, steps)
        scale = now.std(0)
        for place in range(potentials):
            phi = draw_potential(random, now.shape[1], kinds[place % len(kinds)])
            before, after = phi(now / scale), phi(then / scale)
            for name, paid in shape(before, after, ended, random).items():
                answer = fit_potential(Shaped(now, then, paid, ended), GAMMA).answer
                total += 1
                undecided += answer == "undecided"
                safe += answer == "yes" and name != "potential"
                wrong += answer == "no" and name == "potential"
    return safe, undecided, wrong, total


Add = Callable[..., None]


def measure_shapings(add: Add, quick: bool) -> None:
    """Is the check of potentials right?"""
    right, total = check_finite()
    add(f"shaping of finite environments, right answers of {total}", "%", 100 * right / total, "higher", 100.0)
    for seed, draws, kinds in (
        (1, "", SMOOTH),
        (FRESH, ", held out", SMOOTH),
        (NEW, ", held out again", SMOOTH),
        (NEW, ", other kinds", OTHER),
    ):
        safe, undecided, wrong, total = check_vectors(*((2_000, 1) if quick else (4_000, 6)), seed, kinds)
        add(f"shaping of vectors, {total}{draws}: called safe and is not", "", safe, "lower", 0.0)
        add(f"shaping of vectors, {total}{draws}: undecided", "%", 100 * undecided / total, "lower", 15.0, 5.0)
        add(f"shaping of vectors, {total}{draws}: a potential that is called none", "", wrong, "lower")


def measure_rooms(add: Add, quick: bool) -> None:
    """Is the check right about terms of other kinds?"""
    steps = 1_000 if quick else 5_000
    looks: tuple[tuple[Callable[[], Sequence[tuple[Any, str, float]]], str], ...] = (
        (partial(shapings.judge, steps, 0), ", written before it saw any"),
        (partial(shapings.judge, steps, 1), ", doors and slopes drawn anew after it was changed"),
        (partial(shapings_second.judge, steps), ", of another world"),
    )
    for judge, draws in looks:
        judged = judge()
        what = f"shaping of {len(judged)} other kinds{draws}"
        safe = [shaping.name for shaping, answer, _ in judged if answer == "yes" and not shaping.safe]
        undecided = [shaping.name for shaping, answer, _ in judged if answer == "undecided"]
        wrong = [shaping.name for shaping, answer, _ in judged if answer == "no" and shaping.safe]
        add(f"{what}: called safe and is not", "", len(safe), "lower", 0.0, note="; ".join(safe))
        add(f"{what}: undecided", "%", 100 * len(undecided) / len(judged), "lower", note="; ".join(undecided))
        add(f"{what}: harmless, and called none", "", len(wrong), "lower", note="; ".join(wrong))


def measure_finds(add: Add, quick: bool) -> None:
    """Does a bonus find what plain learning does not?"""
    seeds = 2 if quick else 5
    sea = reach("DeepSea-v0:ppo_count", 25_000, seeds)
    what = f"DeepSea-10, PPO with counts: seeds of {seeds} that find it in 2,500 dives"
    add(what, "", sum(at is not None for at in sea), "higher", seeds)
    add("DeepSea-10, PPO with counts: dives of the slowest seed", "", max((at or 25_000) for at in sea) / 10, "lower", 2_500.0, 1_000.0)
    car = f"seeds of {seeds} at 90 % success in 100,000 env steps"
    for kind, coef in (("count", 0.1), ("rnd", 0.1)):
        at = reach("SparseMountainCar-v0", 100_000, seeds, f"bonus.kind={kind}", f"bonus.coef={coef}")
        what = f"SparseMountainCar, PPO with {kind} {coef}: {car}"
        add(what, "", sum(each is not None for each in at), "higher", note=f"at {sorted(each for each in at if each is not None)}")
    plain = reach("SparseMountainCar-v0", 100_000, seeds)
    add(f"SparseMountainCar, plain PPO: {car}", "", sum(at is not None for at in plain), "higher")
    luck = reach("DeepSea-v0:ppo", 100_000, seeds)
    add(f"DeepSea-10, plain PPO: seeds of {seeds} that find it in 10,000 dives", "", sum(at is not None for at in luck), "higher")


def measure_costs(add: Add, quick: bool) -> None:
    """What does a bonus cost?"""
    repeats, steps = (1, 4_096) if quick else (15, 16_384)
    for what, settings, bar, stretch in (
        ("counts", ("bonus.kind=count",), 3.0, 1.0),
        ("counts without a critic of their own", ("bonus.kind=count", "bonus.value_head=shared"), None, None),
        ("RND", ("bonus.kind=rnd",), 20.0, 10.0),
    ):
        shares = measure_cost(repeats, steps, *settings)
        for clock_, share in zip(("processor", "wall"), shares.T, strict=True):
            median, low, high = (float(np.quantile(share, part)) for part in (0.5, 0.25, 0.75))
            note = f"median of {repeats} interleaved pairs of {steps:,} env steps; half of them {low:.1f} to {high:.1f}"
            add(f"{what}: more {clock_} time, PPO CartPole, 8 seeds", "%", round(median, 2), "lower", bar, stretch, note=note)


PARTS = {"shapings": measure_shapings, "rooms": measure_rooms, "finds": measure_finds, "costs": measure_costs}


def main() -> None:
    """Measure everything, or with --quick a little of each."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", choices=list(PARTS))
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def add(what: str, unit: str, value: float, better: str, bar: float | None = None, stretch: float | None = None, **more: Any) -> None:
        limits = {"better": better, "bar": bar, "stretch": stretch}
        rows.append({"what": what, "unit": unit, "value": value, **limits, "command": COMMAND, **more})
        provenance.write("tasks", rows, provenance.provenance(COMMAND), args.quick)

    for name, measure in PARTS.items():
        if args.only in (None, name):
            measure(add, args.quick)


if __name__ == "__main__":
    main()
