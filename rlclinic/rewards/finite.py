"""What shaping costs, exactly: the best policies of a finite process under two rewards, and what the one loses by the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Process:
    """A finite Markov decision process as a list of transitions [B]: state, action, probability, next state, and whether it terminates."""

    state: np.ndarray
    action: np.ndarray
    probability: np.ndarray
    next_state: np.ndarray
    terminated: np.ndarray
    states: int
    actions: int
    initial: np.ndarray
    """[S]: how likely an episode starts where."""

    @classmethod
    def of_table(
        cls, table: Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]], initial: np.ndarray
    ) -> "tuple[Process, np.ndarray]":
        """From Gymnasium's `P`, with the reward of each transition."""
        rows = [(s, a, *entry) for s, by_action in table.items() for a, entries in by_action.items() for entry in entries if entry[0] > 0]
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        state, action, probability, next_state, reward, terminated = columns
        process = cls(
            state,
            action,
            probability.astype(float),
            next_state,
            terminated.astype(bool),
            len(table),
            len(table[0]),
            np.asarray(initial, float),
        )
        return process, reward.astype(float)


@dataclass(frozen=True)
class Solution:
    """The best values Q [S, A] of a reward, and the policy [S] that takes the best action (the first of equals)."""

    q: np.ndarray
    policy: np.ndarray


def solve(process: Process, reward: np.ndarray, gamma: float, tolerance: float = 1e-12) -> Solution:
    """Value iteration for a reward [B] per transition."""
    q = np.zeros((process.states, process.actions))
    for _ in range(100_000):
        new = _back_up(process, reward, gamma, q.max(1))
        if np.abs(new - q).max() < tolerance * max(1.0, np.abs(new).max()):
            q = new
            break
        q = new
    # Rounding must not choose between equals.
    return Solution(q, np.argmax(q > q.max(1, keepdims=True) - 1e-9 * max(1.0, np.abs(q).max()), axis=1))


def _back_up(process: Process, reward: np.ndarray, gamma: float, value: np.ndarray) -> np.ndarray:
    q = np.zeros((process.states, process.actions))
    worth = process.probability * (reward + gamma * value[process.next_state] * ~process.terminated)
    np.add.at(q, (process.state, process.action), worth)
    return q


def evaluate(process: Process, policy: np.ndarray, reward: np.ndarray, gamma: float) -> float:
    """The discounted return of a policy [S] from where episodes start."""
    follows = process.action == policy[process.state]
    transition, paid = np.zeros((process.states, process.states)), np.zeros(process.states)
    goes_on = follows & ~process.terminated
    np.add.at(transition, (process.state[goes_on], process.next_state[goes_on]), process.probability[goes_on])
    np.add.at(paid, process.state[follows], (process.probability * reward)[follows])
    value = np.linalg.solve(np.eye(process.states) - min(gamma, 1 - 1e-9) * transition, paid)
    return float(process.initial @ value)


def shaping_loss(process: Process, task: np.ndarray, shaping: np.ndarray, gamma: float) -> tuple[float, float]:
    """(the best return of the task, what the policy that is best for task + shaping gets of it)."""
    best, shaped = solve(process, task, gamma), solve(process, task + shaping, gamma)
    return evaluate(process, best.policy, task, gamma), evaluate(process, shaped.policy, task, gamma)
