"""Grids that differ in every episode: a room with a locked door, rooms in a row, and mazes that grow. Seen from where the agent stands.

A state is a row of whole numbers [..., S] and holds the layout, so that a step needs no other memory. All pay 1 at the goal and nothing
before.
"""

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

VIEW = 7
"""Cells to a side of what the agent sees."""


def _below(number: Tensor, count: Tensor | int) -> Tensor:
    """A whole number from 0 to count - 1, of one in (0, 1)."""
    return torch.minimum((number * count).long(), torch.as_tensor(count, device=number.device) - 1)


def _look_ahead(device: str) -> tuple[Tensor, Tensor]:
    """By heading (right, down, left, up): the step ahead, [4, 2], and where each cell of the view ahead lies, [4, 49, 2]."""
    ahead = torch.tensor([[1, 0], [0, 1], [-1, 0], [0, -1]], device=device)
    reach, aside = torch.meshgrid(torch.arange(VIEW, device=device), torch.arange(VIEW, device=device) - VIEW // 2, indexing="ij")
    beside = torch.stack((-ahead[:, 1], ahead[:, 0]), -1)
    return ahead, (reach.reshape(1, -1, 1) * ahead.unsqueeze(1)) + aside.reshape(1, -1, 1) * beside.unsqueeze(1)


class DoorKey(Dynamics):
    """Two rooms and a locked door: fetch the key, open the door, walk to the far corner (after MiniGrid's DoorKey; walls hide nothing).

    State [x, y, heading, key's x, key's y, has key, wall's x, door's y, door is open]. Actions: turn left, turn right, forward, pick up,
    open. The view is 7 x 7 cells ahead of the agent: walls, key, locked door, open door and goal, then whether it has the key.
    """

    action = ActionSpec("discrete", (5,))
    noise = 7

    def __init__(self, device: str = "cpu", size: int = 8) -> None:
        if not 5 <= size <= 25:
            raise ValueError(f"size={size} is not between 5 and 25")
        self._size = size
        self.obs_shape = (5 * VIEW * VIEW + 1,)
        self.obs_low, self.obs_high = np.zeros(self.obs_shape, np.float32), np.ones(self.obs_shape, np.float32)
        self._ahead, self._view = _look_ahead(device)

    def start(self, uniform: Tensor) -> Tensor:
        inside = self._size - 2
        draw = uniform.unbind(-1)
        wall = 2 + _below(draw[0], inside - 2)
        door = 1 + _below(draw[1], inside)
        # The left room has (wall - 1) x inside cells: agent and key in two different ones.
        cells = (wall - 1) * inside
        agent = _below(draw[2], cells)
        key = (agent + 1 + _below(draw[3], cells - 1)) % cells
        heading = _below(draw[4], 4)
        zero = torch.zeros_like(wall)
        place = [1 + agent // inside, 1 + agent % inside, heading, 1 + key // inside, 1 + key % inside]
        return torch.stack([*place, zero, wall, door, zero], -1)

    def observe(self, state: Tensor) -> Tensor:
        x, y, heading, key_x, key_y, has_key, wall, door, is_open = (part.unsqueeze(-1) for part in state.unbind(-1))
        offset = self._view[heading.squeeze(-1)]
        column, row = x + offset[..., 0], y + offset[..., 1]
        planes = torch.stack(
            (
                self._is_wall(column, row, wall, door),
                (column == key_x) & (row == key_y) & (has_key == 0),
                (column == wall) & (row == door) & (is_open == 0),
                (column == wall) & (row == door) & (is_open == 1),
                (column == self._size - 2) & (row == self._size - 2),
            ),
            -2,
        )
        return torch.cat((planes.flatten(-2).float(), has_key.float()), -1)

    def _is_wall(self, column: Tensor, row: Tensor, wall: Tensor, door: Tensor) -> Tensor:
        last = self._size - 1
        return (column <= 0) | (row <= 0) | (column >= last) | (row >= last) | ((column == wall) & (row != door))

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        x, y, heading, key_x, key_y, has_key, wall, door, is_open = state.unbind(-1)
        step = self._ahead[heading]
        front_x, front_y = x + step[..., 0], y + step[..., 1]
        at_key = (front_x == key_x) & (front_y == key_y) & (has_key == 0)
        at_door = (front_x == wall) & (front_y == door)
        blocked = self._is_wall(front_x, front_y, wall, door) | at_key | (at_door & (is_open == 0))
        moves = (action == 2) & ~blocked
        x, y = torch.where(moves, front_x, x), torch.where(moves, front_y, y)
        heading = (heading + (action == 1).long() - (action == 0).long()) % 4
        is_open = is_open | ((action == 4) & at_door & (has_key == 1)).long()
        has_key = has_key | ((action == 3) & at_key).long()
        after = torch.stack((x, y, heading, key_x, key_y, has_key, wall, door, is_open), -1)
        reached = self._at_goal(after)
        return after, reached.float(), reached

    def _at_goal(self, state: Tensor) -> Tensor:
        return (state[..., 0] == self._size - 2) & (state[..., 1] == self._size - 2)

    def success(self, state: Tensor) -> Tensor:
        return self._at_goal(state).float()


class MultiRoom(Dynamics):
    """Rooms in a row, a closed door between each and the next: walk from the first to the goal in the last (after MiniGrid's MultiRoom).

    Rooms are `size` x `size` cells inside. Doors lie at other places in every episode and stay open once they are. Actions: turn left,
    turn right, forward, open. The view is 7 x 7 cells ahead of the agent: walls, closed doors, open doors and goal; walls hide nothing.

    State [x, y, heading, goal's x, goal's y, how many doors are open, a door's y for each wall]. A door is opened from the room before it,
    so those that are open are the first ones.
    """

    action = ActionSpec("discrete", (4,))

    def __init__(self, device: str = "cpu", rooms: int = 4, size: int = 4) -> None:
        if not 2 <= rooms <= 10:
            raise ValueError(f"rooms={rooms} is not between 2 and 10")
        if not 2 <= size <= 10:
            raise ValueError(f"size={size} is not between 2 and 10")
        self._rooms, self._size, self.noise = rooms, size, rooms + 4
        self.obs_shape = (4 * VIEW * VIEW,)
        self.obs_low, self.obs_high = np.zeros(self.obs_shape, np.float32), np.ones(self.obs_shape, np.float32)
        self._ahead, self._view = _look_ahead(device)

    def start(self, uniform: Tensor) -> Tensor:
        draw, size = uniform.unbind(-1), self._size
        doors = [1 + _below(each, size) for each in draw[5:]]
        goal_x = (self._rooms - 1) * (size + 1) + 1 + _below(draw[3], size)
        place = [1 + _below(draw[0], size), 1 + _below(draw[1], size), _below(draw[2], 4), goal_x, 1 + _below(draw[4], size)]
        return torch.stack([*place, torch.zeros_like(goal_x), *doors], -1)

    def _look(self, state: Tensor, column: Tensor, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Which cells [..., K] are walls, closed doors and open doors."""
        width = self._size + 1
        outside = (column <= 0) | (row <= 0) | (row >= width) | (column >= self._rooms * width)
        number = torch.div(column, width, rounding_mode="floor") - 1  # of the wall that a column may be
        between = (column % width == 0) & ~outside
        doors = state[..., 6:].gather(-1, number.clamp(0, self._rooms - 2))
        door = between & (row == doors)
        is_open = number < state[..., 5:6]
        return outside | (between & ~door), door & ~is_open, door & is_open

    def observe(self, state: Tensor) -> Tensor:
        offset = self._view[state[..., 2]]
        column, row = state[..., 0:1] + offset[..., 0], state[..., 1:2] + offset[..., 1]
        goal = (column == state[..., 3:4]) & (row == state[..., 4:5])
        return torch.stack((*self._look(state, column, row), goal), -2).flatten(-2).float()

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        x, y, heading = state[..., 0], state[..., 1], state[..., 2]
        step = self._ahead[heading]
        front_x, front_y = x + step[..., 0], y + step[..., 1]
        wall, closed, _ = (each.squeeze(-1) for each in self._look(state, front_x.unsqueeze(-1), front_y.unsqueeze(-1)))
        moves = (action == 2) & ~wall & ~closed
        x, y = torch.where(moves, front_x, x), torch.where(moves, front_y, y)
        heading = (heading + (action == 1).long() - (action == 0).long()) % 4
        is_open = state[..., 5] + ((action == 3) & closed).long()
        after = torch.cat((torch.stack((x, y, heading), -1), state[..., 3:5], is_open.unsqueeze(-1), state[..., 6:]), -1)
        reached = self._at_goal(after)
        return after, reached.float(), reached

    def _at_goal(self, state: Tensor) -> Tensor:
        return (state[..., :2] == state[..., 3:5]).all(-1)

    def success(self, state: Tensor) -> Tensor:
        return self._at_goal(state).float()


class Maze(Dynamics):
    """A maze, one of `levels` in every episode: from a corner to a goal that lies further away the higher the `difficulty` is.

    `size` is the side with walls, an odd number from 5; `difficulty` is the share of the way to the room that is furthest from the start.
    What is seen has the same shape in every size: walls and goal in 7 x 7 cells around the agent, the way to the goal as the crow flies,
    and the direction of the last step. Without that a policy that remembers nothing could not tell a dead end it has been in from one it
    has not: with it, keeping to one wall leads to every goal. A policy goes on from one size to the next. Actions: up, right, down, left.
    Levels `first_level`, `first_level` + 1, …: others than those that were trained on show whether mazes were learned by heart.

    State [x, y, level, direction of the last step; 4: none yet].
    """

    action = ActionSpec("discrete", (4,))
    noise = 1

    def __init__(self, device: str = "cpu", size: int = 9, difficulty: float = 1.0, levels: int = 500, first_level: int = 0) -> None:
        if not 5 <= size <= 31 or size % 2 == 0:
            raise ValueError(f"size={size} is not an odd number between 5 and 31")
        if not 0 <= difficulty <= 1:
            raise ValueError(f"difficulty={difficulty} is not between 0 and 1")
        if not 1 <= levels <= 100_000:
            raise ValueError(f"levels={levels} is not between 1 and 100000")
        if first_level < 0:
            raise ValueError(f"first_level={first_level} is below 0")
        self._size, self._levels = size, levels
        built = [dig(size, level) for level in range(first_level, first_level + levels)]
        # A border as wide as the view reaches: every cell that is looked at exists.
        walls = np.pad(np.stack([walls for walls, _ in built]), ((0, 0), (VIEW // 2,) * 2, (VIEW // 2,) * 2), constant_values=True)
        self._walls = torch.tensor(walls, device=device)
        self._goals = torch.tensor([_choose_goal(ways, difficulty) for _, ways in built], device=device)
        self.obs_shape = (2 * VIEW * VIEW + 2 + len(STEPS),)
        self.obs_low, self.obs_high = np.zeros(self.obs_shape, np.float32), np.ones(self.obs_shape, np.float32)
        self.obs_low[2 * VIEW * VIEW : 2 * VIEW * VIEW + 2] = -1.0
        self._steps = torch.tensor(STEPS, device=device)
        self._directions = torch.arange(len(STEPS), device=device)
        near = torch.arange(VIEW, device=device) - VIEW // 2
        down, right = torch.meshgrid(near, near, indexing="ij")
        self._right, self._down = right.reshape(-1), down.reshape(-1)

    def start(self, uniform: Tensor) -> Tensor:
        level = (uniform * self._levels).long().clamp_(max=self._levels - 1)
        return torch.cat((torch.ones_like(level), torch.ones_like(level), level, torch.full_like(level, len(STEPS))), -1)

    def observe(self, state: Tensor) -> Tensor:
        x, y, level, last = state.split(1, -1)
        goal_x, goal_y = self._goals[level.squeeze(-1)].split(1, -1)
        column, row = x + self._right, y + self._down
        goal = (column == goal_x) & (row == goal_y)
        way = torch.cat((goal_x - x, goal_y - y), -1).float() / (self._size - 3)
        return torch.cat((self._is_wall(level, column, row).float(), goal.float(), way, (last == self._directions).float()), -1)

    def _is_wall(self, level: Tensor, column: Tensor, row: Tensor) -> Tensor:
        return self._walls[level, row + VIEW // 2, column + VIEW // 2]

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        place, level = state[..., :2], state[..., 2]
        ahead = place + self._steps[action]
        blocked = self._is_wall(level, ahead[..., 0], ahead[..., 1])
        last = torch.where(blocked, state[..., 3], action)
        after = torch.cat((torch.where(blocked.unsqueeze(-1), place, ahead), torch.stack((level, last), -1)), -1)
        reached = self._at_goal(after)
        return after, reached.float(), reached

    def _at_goal(self, state: Tensor) -> Tensor:
        return (state[..., :2] == self._goals[state[..., 2]]).all(-1)

    def success(self, state: Tensor) -> Tensor:
        return self._at_goal(state).float()


STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""What up, right, down and left add to a place."""


def dig(size: int, level: int) -> tuple[np.ndarray, dict[tuple[int, int], int]]:
    """One maze: its walls [size, size] by row and column, and how many steps every room is away from the start in (1, 1).

    Passages are dug from room to room, back to the last one with an undug neighbour: all rooms are connected, by one way each.
    """
    random = np.random.default_rng((size, level))
    walls = np.ones((size, size), bool)
    walls[1, 1] = False
    steps, trail = {(1, 1): 0}, [(1, 1)]
    while trail:
        x, y = trail[-1]
        beside = [(x + 2 * right, y + 2 * down) for right, down in STEPS]
        undug = [(column, row) for column, row in beside if 0 < column < size and 0 < row < size and walls[row, column]]
        if not undug:
            trail.pop()
            continue
        column, row = undug[random.integers(len(undug))]
        walls[row, column] = walls[(y + row) // 2, (x + column) // 2] = False
        steps[column, row] = steps[x, y] + 2
        trail.append((column, row))
    return walls, steps


def _choose_goal(ways: dict[tuple[int, int], int], difficulty: float) -> tuple[int, int]:
    """The room whose way is nearest to that share of the longest one, and not the start."""
    wanted = difficulty * max(ways.values())
    return min((room for room in ways if room != (1, 1)), key=lambda room: (abs(ways[room] - wanted), room))
