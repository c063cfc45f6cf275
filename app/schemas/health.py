"""What the health addresses answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SchemaState = Literal["ok", "newer", "outdated", "unknown"]


class Liveness(BaseModel):
    """The process runs."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The service and what it stands on."""

    model_config = ConfigDict(serialize_by_alias=True)

    status: Literal["ok", "degraded", "down"]
    database: Literal["ok", "unavailable"]
    # pydantic has a method of this name.
    schema_: SchemaState = Field(
        alias="schema",
        description="`outdated`: run `loadmaster db migrate`; `newer` is fine while versions are "
        "exchanged; `unknown` without the database.",
    )
    broker: Literal["ok", "unavailable"]
