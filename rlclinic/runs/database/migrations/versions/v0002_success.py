"""Success rates, and runs that lost the threshold again."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_RUN = (("lost", sa.Boolean), ("success_rate", sa.Float), ("required_success", sa.Float))


def upgrade() -> None:
    """Add the columns. The rows are read again from the folders, which say what is in them."""
    for table in ("run", "run_group"):
        op.execute(sa.text(f"DELETE FROM {table}"))
    for name, kind in _RUN:
        op.add_column("run", sa.Column(name, kind, nullable=True))
    op.add_column("run_group", sa.Column("lost", sa.Integer, nullable=False, server_default="0"))
    op.add_column("run_group", sa.Column("success_rate", sa.Float, nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name, _ in _RUN:
        op.drop_column("run", name)
    for name in ("lost", "success_rate"):
        op.drop_column("run_group", name)
