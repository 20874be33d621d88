"""DeepSea, Delivery, DoorKey, MultiRoom, Maze and SparseMountainCar: what can be done in them; Gymnasium's interface steps the same."""

from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.config import EnvConfig, load
from rlclinic.config.gymnasium_registry import OWN_ENVIRONMENTS
from rlclinic.errors import ConfigError
from rlclinic.training import envs
from rlclinic.training.envs import making, native
from rlclinic.training.envs.native import grids, tables


def walk(table: tables.Table, state: int, actions: list[int]) -> tuple[int, float]:
    """Where actions lead, and what they pay."""
    paid = 0.0
    for action in actions:
        ((_, state, reward, _),) = table.table[state][action]
        paid += reward
    return state, paid


@pytest.mark.parametrize("mapping_seed", [0, 7, None])
def test_only_the_dive_that_always_goes_right_finds_the_treasure(mapping_seed: int | None) -> None:
    sea = tables.deep_sea(size=6, mapping_seed=mapping_seed)
    found = []
    for number in range(2**6):
        actions = [number >> place & 1 for place in range(6)]
        end, paid = walk(sea, 0, actions)
        if end == 37:
            found.append(paid)
    assert found == [pytest.approx(0.99)]


def test_a_dive_takes_as_many_steps_as_there_are_rows_and_terminates() -> None:
    env = envs.make(EnvConfig(id="DeepSea-v0", kwargs={"size": 4}), [0], 3)
    ends = [env.step(torch.ones(1, 3, dtype=torch.int64)).terminated.all().item() for _ in range(8)]
    assert ends == [False, False, False, True] * 2


def test_a_parcel_that_is_put_back_pays_again_only_where_it_is_farmable() -> None:
    pick, put = 4, 5
    assert walk(tables.delivery(), 0, [pick, put] * 10)[1] == 10
    assert walk(tables.delivery(farmable=False), 0, [pick, put] * 10)[1] == 0
    for table in (tables.delivery(size=3), tables.delivery(size=3, farmable=False)):
        assert walk(table, 0, [pick, 1, 1, 2, 2, put]) == (18, 11.0)


def starts(dynamics: Any, count: int = 500) -> torch.Tensor:
    state: torch.Tensor = dynamics.start(torch.rand(count, dynamics.noise, generator=torch.Generator().manual_seed(0)))
    return state


@pytest.mark.parametrize("size", [5, 8])
def test_every_door_room_has_its_key_before_the_door_and_its_goal_behind(size: int) -> None:
    room = grids.DoorKey(size=size)
    x, y, _, key_x, key_y, has_key, wall, door, is_open = starts(room).unbind(-1)
    assert (x < wall).all()
    assert (key_x < wall).all()
    assert (wall < size - 2).all()
    assert not ((x == key_x) & (y == key_y)).any()
    assert not has_key.any()
    assert not is_open.any()
    assert door.unique().tolist() == list(range(1, size - 1))


def test_a_door_opens_for_the_key_alone() -> None:
    room = grids.DoorKey(size=6)
    locked = torch.tensor([2, 2, 0, 1, 1, 0, 3, 2, 0])  # in front of the door, the key behind it
    with_key = torch.tensor([2, 2, 0, 1, 1, 1, 3, 2, 0])
    open_it, forward = torch.tensor(4), torch.tensor(2)
    for state, passes in ((locked, False), (with_key, True)):
        after, _, _ = room.advance(room.advance(state, open_it, None)[0], forward, None)
        assert (after[0].item() == 3) is passes
    seen = room.observe(locked).view(-1)[:-1].view(5, 7, 7)
    assert seen[2].nonzero().tolist() == [[1, 3]]  # the locked door straight ahead
    assert room.observe(with_key)[-1] == 1


@pytest.mark.parametrize(("rooms", "size"), [(2, 2), (4, 4), (6, 3)])
def test_the_way_through_rooms_in_a_row_leads_through_every_door(rooms: int, size: int) -> None:
    """Walk it by hand: to a door's row, to the door, open it, through it; without opening nobody leaves a room."""
    world = grids.MultiRoom(rooms=rooms, size=size)
    right, down, left, up = range(4)
    for first in starts(world, 30):
        state, paid = first, 0.0

        def act(state: torch.Tensor, action: int) -> tuple[torch.Tensor, float]:
            after, reward, reached = world.advance(state.unsqueeze(0), torch.tensor([action]), None)
            assert bool(reached) == bool(reward)
            return after[0], float(reward)

        def face(state: torch.Tensor, heading: int) -> torch.Tensor:
            while int(state[2]) != heading:
                state, _ = act(state, 1)
            return state

        def go(state: torch.Tensor, x: int, y: int) -> tuple[torch.Tensor, float]:
            paid = 0.0
            for axis, wanted, ways in ((1, y, (down, up)), (0, x, (right, left))):
                while int(state[axis]) != wanted and not paid:
                    before = state.clone()
                    state, paid = act(face(state, ways[int(state[axis]) > wanted]), 2)
                    assert not torch.equal(state[:2], before[:2])
            return state, paid

        for wall in range(rooms - 1):
            door = int(first[6 + wall])
            state, paid = go(state, (wall + 1) * (size + 1) - 1, door)
            state = face(state, right)
            assert torch.equal(act(state, 2)[0], state)  # it is closed
            seen = world.observe(state).view(4, 7, 7)
            assert seen[1, 1, 3] == 1
            state, _ = act(state, 3)
            assert int(state[5]) == wall + 1
            assert world.observe(state).view(4, 7, 7)[2, 1, 3] == 1
            state, _ = act(act(state, 2)[0], 2)
            assert int(state[0]) == (wall + 1) * (size + 1) + 1
        state, paid = go(state, int(first[3]), int(first[4]))
        assert paid == 1.0 or bool(world.success(state))


def test_chance_alone_hardly_crosses_four_rooms() -> None:
    env = envs.make(EnvConfig(id="MultiRoom-v0"), [0], 200)
    generator = torch.Generator().manual_seed(0)
    met = sum(float(env.step(torch.randint(0, 4, (1, 200), generator=generator)).terminated.sum()) for _ in range(240))
    assert met <= 2


def reachable(maze: grids.Maze, state: torch.Tensor) -> dict[tuple[int, int], int]:
    """Every cell that can be walked to, and in how many steps."""
    here = (int(state[0]), int(state[1]))
    steps, border = {here: 0}, [here]
    while border:
        x, y = border.pop(0)
        there = torch.stack([torch.tensor([x, y, int(state[2]), 4])] * 4)
        for after in maze.advance(there, torch.arange(4), None)[0].tolist():
            cell = (after[0], after[1])
            if cell not in steps:
                steps[cell] = steps[x, y] + 1
                border.append(cell)
    return steps


@pytest.mark.parametrize("size", [5, 7, 9])
def test_every_room_of_a_maze_can_be_reached_and_there_are_no_loops(size: int) -> None:
    maze, rooms = grids.Maze(size=size, levels=20), ((size - 1) // 2) ** 2
    for state in starts(maze, 20):
        cells = reachable(maze, state)
        assert {(x, y) for x, y in cells if x % 2 and y % 2} == {(x, y) for x in range(1, size, 2) for y in range(1, size, 2)}
        assert len(cells) == rooms + rooms - 1  # a tree: one door less than rooms


def test_a_more_difficult_maze_has_a_longer_way() -> None:
    def way(size: int, difficulty: float) -> float:
        maze = grids.Maze(size=size, difficulty=difficulty, levels=20)
        ways = []
        for level in range(20):
            steps = reachable(maze, torch.tensor([1, 1, level, 4]))
            ways.append(next(count for place, count in steps.items() if maze.success(torch.tensor([*place, level, 4]))))
        return float(np.mean(ways))

    assert way(9, 0.0) < way(9, 0.5) < way(9, 1.0)
    assert way(5, 1.0) < way(7, 1.0) < way(9, 1.0)


def test_what_is_seen_has_the_same_shape_in_every_maze() -> None:
    assert len({grids.Maze(size=size).obs_shape for size in (5, 9, 21)}) == 1


@pytest.mark.parametrize("env_id", OWN_ENVIRONMENTS)
def test_gymnasiums_interface_steps_the_same_environment(env_id: str) -> None:
    config = load(env_id).config.env
    env: Any = making.make_single(config)
    dynamics = native.CATALOG[env_id].build("cpu", **config.kwargs)
    obs, _ = env.reset(seed=3)
    uniform = torch.tensor(np.random.default_rng(3).random(dynamics.noise), dtype=torch.float32)
    state = dynamics.start(uniform)
    for action in np.random.default_rng(0).integers(0, env.action_space.n, 20):
        seen = dynamics.observe(state)
        assert env.observation_space.contains(obs)
        assert torch.equal(seen, torch.eye(len(seen))[obs] if isinstance(dynamics, tables.Table) else torch.tensor(obs))
        state, reward, terminated = dynamics.advance(state, torch.tensor(int(action)), None)
        obs, paid, ended, _, info = env.step(action)
        assert (paid, ended, info["is_success"]) == (float(reward), bool(terminated), bool(dynamics.success(state)))
        if ended:
            break
    assert env.spec.max_episode_steps == OWN_ENVIRONMENTS[env_id]


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("DeepSea-v0", {"size": 1}),
        ("Maze-v0", {"size": 6}),
        ("Maze-v0", {"difficulty": 2}),
        ("DoorKey-v0", {"size": 3}),
        ("MultiRoom-v0", {"rooms": 1}),
    ],
)
def test_a_size_that_makes_no_environment_is_refused_with_its_bounds(env_id: str, kwargs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"not (an odd number )?between"):
        envs.make(EnvConfig(id=env_id, kwargs=kwargs), [0], 1)
