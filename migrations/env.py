"""Alembic's entry point; `migrations.run` gives it the connection and the transaction."""

from __future__ import annotations

from alembic import context

from app.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    transactional_ddl=False,
)
context.run_migrations()
