"""Settings, verdicts and training times, for tables that are sorted and filtered by them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ADDED = (
    ("run", "wall_seconds", sa.Float),
    ("run", "config", sa.String(32)),
    ("run_group", "wall_seconds", sa.Float),
    ("run_group", "config", sa.String(32)),
    ("run_group", "verdict", sa.String),
)


def upgrade() -> None:
    """Add the columns and the table. The rows are read again from the folders, which say what is in them."""
    for table in ("run", "run_group"):
        op.execute(sa.text(f"DELETE FROM {table}"))
    for table, name, kind in _ADDED:
        op.add_column(table, sa.Column(name, kind, nullable=True))
    op.create_table("config", sa.Column("hash", sa.String(32), primary_key=True), sa.Column("settings", sa.String, nullable=False))


def downgrade() -> None:
    """Drop them."""
    op.drop_table("config")
    for table, name, _ in _ADDED:
        op.drop_column(table, name)
