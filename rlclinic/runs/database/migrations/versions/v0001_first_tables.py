"""Runs, groups and kept answers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_BOTH = (
    ("name", sa.String, False),
    ("env", sa.String, False),
    ("algo", sa.String, False),
    ("state", sa.String(16), False),
    ("created", sa.Float, False),
    ("heartbeat", sa.Float, False),
    ("env_steps", sa.BigInteger, False),
    ("max_env_steps", sa.BigInteger, True),
    ("return_mean", sa.Float, True),
    ("eval_mean", sa.Float, True),
    ("best_eval", sa.Float, True),
    ("threshold", sa.Float, True),
    ("parent", sa.String, True),
    ("trial", sa.String(64), True),
    ("label", sa.String, True),
    ("tags", sa.String, False),
    ("note", sa.String, False),
    ("text", sa.String, False),
    ("stamp", sa.BigInteger, False),
)
_RUN = (
    ("group_id", sa.String(64), True),
    ("seed", sa.BigInteger, False),
    ("reason", sa.String, True),
    ("threshold_reached_at", sa.BigInteger, True),
    ("steps_per_second", sa.Float, True),
)
_GROUP = (("prescription", sa.String, True), ("source", sa.String, True), ("runs", sa.Integer, False), ("reached", sa.Integer, False))


def upgrade() -> None:
    """Make the tables."""
    for table, more in (("run", _RUN), ("run_group", _GROUP)):
        columns = [sa.Column(name, kind, nullable=nullable) for name, kind, nullable in (*_BOTH, *more)]
        op.create_table(table, sa.Column("id", sa.String(64), primary_key=True), *columns)
        for name in ("created", "env", "algo", "state", "trial"):
            op.create_index(f"{table}_{name}", table, [name])
    op.create_index("run_group_id", "run", ["group_id"])
    op.create_table(
        "answer",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("made", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("answer", "run_group", "run"):
        op.drop_table(table)
