"""``python -m migrations``: bring the database of the settings up to date."""

from app.settings import Settings
from migrations.run import upgrade

if __name__ == "__main__":
    upgrade(Settings())
