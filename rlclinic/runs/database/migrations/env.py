"""Run by Alembic: carries out migrations on the connection that the caller put into the config."""

from alembic import context

from rlclinic.runs.database.schema import META, VERSION_TABLE


def migrate() -> None:
    """Carry out what is due."""
    context.configure(connection=context.config.attributes["connection"], target_metadata=META, version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


# Alembic gives the module its config while it runs it; merely imported, nothing is to be done.
if hasattr(context, "config"):
    migrate()
