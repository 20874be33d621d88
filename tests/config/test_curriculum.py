"""Stages as they are written, and what is wrong with those that cannot be."""

from typing import Any

import pytest

from rlclinic.config import Config, CurriculumConfig, from_record, load, set_values, to_record
from rlclinic.errors import ConfigError

STAGES: list[dict[str, Any]] = [
    {"name": "Basic Movement", "env_config": {"difficulty": 0.1}, "success_threshold": 0.8, "min_episodes": 100},
    {"name": "Expert Level", "env_config": {"difficulty": 1.0}, "success_threshold": 0.5, "min_episodes": 1000},
]
MAZE = {"id": "Maze-v0"}


BRIEF: list[dict[str, Any]] = [
    {
        "name": "Basic Movement",
        "env_config": {"difficulty": 0.1, "sparse_rewards": False},
        "success_threshold": 0.8,
        "min_episodes": 100,
    },
    {
        "name": "Obstacle Navigation",
        "env_config": {"difficulty": 0.3, "obstacles": True},
        "success_threshold": 0.7,
        "min_episodes": 200,
    },
    {
        "name": "Complex Tasks",
        "env_config": {"difficulty": 0.6, "multi_objective": True},
        "success_threshold": 0.6,
        "min_episodes": 500,
    },
    {
        "name": "Expert Level",
        "env_config": {"difficulty": 1.0, "sparse_rewards": True},
        "success_threshold": 0.5,
        "min_episodes": 1000,
    },
]
"""The four stages of brief 003, letter by letter."""


def make(curriculum: dict[str, Any], **sections: Any) -> Config:
    return Config(**{"env": MAZE, "curriculum": curriculum, **sections})


def test_stages_are_read_as_people_write_them_and_come_back_the_same():
    config = make({"stages": STAGES})
    assert config.curriculum is not None
    assert [stage.env for stage in config.curriculum.stages] == [{"difficulty": 0.1}, {"difficulty": 1.0}]
    assert config.curriculum.stages[1].min_episodes == 1000
    assert from_record(to_record(config)) == config


def test_the_stages_of_the_brief_are_read_letter_by_letter():
    config = make({"stages": BRIEF}, env={"id": "my_robot:Robot"})
    assert config.curriculum is not None
    for stage, written in zip(config.curriculum.stages, BRIEF, strict=True):
        assert (stage.name, stage.env) == (written["name"], written["env_config"])
        assert (stage.success_threshold, stage.min_episodes) == (written["success_threshold"], written["min_episodes"])
    assert config.env.kwargs == {"difficulty": 1.0, "sparse_rewards": True}
    named = [{("env" if key == "env_config" else key): value for key, value in stage.items()} for stage in BRIEF]
    assert make({"stages": named}, env={"id": "my_robot:Robot"}) == config


def test_the_last_stage_is_the_task_that_everything_else_meets():
    config = make({"stages": STAGES})
    assert config.env.kwargs == {"difficulty": 1.0}
    direct = set_values(config, ["curriculum=null"])
    assert direct.curriculum is None
    assert direct.env.kwargs == {"difficulty": 1.0}


def test_the_same_stages_are_drawn_alike_by_one_setting():
    config = set_values(make({"stages": STAGES}), ["curriculum.kind=uniform"])
    assert config.curriculum is not None
    assert config.curriculum.kind == "uniform"


def test_a_config_without_a_curriculum_is_written_as_before():
    assert "curriculum" not in to_record(load("Maze-v0:ppo").config)


def test_a_range_is_cut_into_values_whole_ones_where_they_are():
    tasks = CurriculumConfig(kind="uniform", parameter="size", range=(5, 9), bins=3).tasks
    assert [task.kwargs for task in tasks] == [{"size": 5}, {"size": 7}, {"size": 9}]
    assert all(type(task.kwargs["size"]) is int for task in tasks)
    tasks = CurriculumConfig(kind="uniform", parameter="difficulty", range=(0, 1), bins=3).tasks
    assert [task.kwargs["difficulty"] for task in tasks] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("curriculum", "sections", "words"),
    [
        ({}, {}, "no tasks"),
        ({"stages": STAGES, "levels": 5}, {}, "curriculum.stages and curriculum.levels"),
        ({"stages": STAGES[:1]}, {}, "two or more, all different"),
        ({"stages": [STAGES[0], {**STAGES[1], "name": "Basic Movement"}]}, {}, "all different"),
        ({"stages": [STAGES[0], {**STAGES[1], "env_config": {"difficulty": 0.1}}]}, {}, "all different"),
        ({"stages": [{**STAGES[0], "success_treshold": 0.8}, STAGES[1]]}, {}, "success_treshold"),
        ({"stages": STAGES, "windoww": 5}, {}, "windoww"),
        ({"stages": [{**STAGES[0], "success_threshold": 1.0}, STAGES[1]]}, {}, "success_threshold=1: must be less than 1"),
        ({"stages": [{**STAGES[0], "success_threshold": 0}, STAGES[1]]}, {}, "success_threshold=0: must be more than 0"),
        ({"stages": [{**STAGES[0], "min_episodes": 0}, STAGES[1]]}, {}, r"Try: min_episodes: 100, in entry 1 of curriculum\.stages"),
        (
            {"stages": [STAGES[0], {**STAGES[1], "success_threshold": 1}]},
            {},
            r"Try: success_threshold: 0\.8, in entry 2 of curriculum\.stages",
        ),
        ({"levels": 5}, {}, "no list of stages"),
        ({"kind": "alp_gmm", "levels": 5}, {}, "in no order"),
        ({"kind": "uniform", "parameter": "size"}, {}, "neither values nor a range"),
        ({"kind": "uniform", "parameter": "size", "values": [5, 7], "range": [5, 9]}, {}, "values and range"),
        ({"stages": STAGES}, {"env": {**MAZE, "kwargs": {"difficulty": 0.5}}}, "evaluations would be on another one"),
        ({"stages": STAGES}, {"env": {**MAZE, "workers": 2}}, "env.workers=2"),
        ({"stages": STAGES}, {"run": {"engine": "captured"}}, "run.engine=captured"),
        ({"kind": "plr", "stages": STAGES}, {"algo": {"name": "dqn"}}, "dqn estimates no advantages"),
        ({"stages": STAGES}, {"algo": {"name": "bc"}, "data": {"path": "x"}}, "does not choose what it is trained on"),
    ],
)
def test_what_cannot_be_is_refused_in_words(curriculum: dict[str, Any], sections: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        make(curriculum, **sections)
