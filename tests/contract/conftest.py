"""The integration tests' servers and databases."""

from tests.integration.conftest import short_dir, sqlite_template

__all__ = ["short_dir", "sqlite_template"]
