"""The tables of the index: what lists, searches and sorts look at. Every value can be read again from the run folders."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table

META: Final = MetaData()
VERSION_TABLE: Final = "rlclinic_alembic_version"
"""Of our own: other programs that keep tables in the same database use Alembic's usual name."""

RUN: Final = Table(
    "run",
    META,
    Column("id", String(64), primary_key=True),
    Column("group_id", String(64)),
    Column("name", String, nullable=False),
    Column("env", String, nullable=False),
    Column("algo", String, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", String),
    Column("created", Float, nullable=False),
    Column("heartbeat", Float, nullable=False),
    Column("env_steps", BigInteger, nullable=False),
    Column("max_env_steps", BigInteger),
    Column("return_mean", Float),
    Column("eval_mean", Float),
    Column("best_eval", Float),
    Column("threshold", Float),
    Column("threshold_reached_at", BigInteger),
    Column("lost", Boolean),
    Column("success_rate", Float),
    Column("required_success", Float),
    Column("steps_per_second", Float),
    Column("wall_seconds", Float),
    Column("config", String(32)),  # of the table below
    Column("parent", String),
    Column("trial", String(64)),
    Column("label", String),
    Column("tags", String, nullable=False),  # " a b ": a tag has no blank, so that one LIKE finds it
    Column("note", String, nullable=False),
    Column("text", String, nullable=False),  # what a search looks through, in lower case
    Column("stamp", BigInteger, nullable=False),  # the folder's mtime in ns when it was read
)
GROUP: Final = Table(
    "run_group",
    META,
    Column("id", String(64), primary_key=True),
    Column("name", String, nullable=False),
    Column("env", String, nullable=False),
    Column("algo", String, nullable=False),
    Column("label", String),
    Column("created", Float, nullable=False),
    Column("heartbeat", Float, nullable=False),
    Column("parent", String),
    Column("prescription", String),
    Column("trial", String(64)),
    Column("source", String),
    Column("state", String(16), nullable=False),
    Column("verdict", String),
    Column("wall_seconds", Float),
    Column("config", String(32)),
    Column("runs", Integer, nullable=False),
    Column("reached", Integer, nullable=False),
    Column("lost", Integer, nullable=False),
    Column("success_rate", Float),
    Column("env_steps", BigInteger, nullable=False),
    Column("max_env_steps", BigInteger),
    Column("return_mean", Float),
    Column("eval_mean", Float),
    Column("best_eval", Float),
    Column("threshold", Float),
    Column("tags", String, nullable=False),
    Column("note", String, nullable=False),
    Column("text", String, nullable=False),
    Column("stamp", BigInteger, nullable=False),
)
CONFIG: Final = Table(
    "config",
    META,
    Column("hash", String(32), primary_key=True),
    Column("settings", String, nullable=False),
)
"""Settings by dotted name as JSON, without name and seed: once for all runs and groups that share them."""
ANSWER: Final = Table(
    "answer",
    META,
    Column("key", String, primary_key=True),
    Column("fingerprint", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("made", Float, nullable=False),
)
"""Answers that took long to compute, with the fingerprint of the files they were computed from."""

for _table in (RUN, GROUP):
    for _column in ("created", "env", "algo", "state", "trial"):
        Index(f"{_table.name}_{_column}", _table.c[_column])
Index("run_group_id", RUN.c.group_id)
