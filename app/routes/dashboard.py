"""The dashboard's pages: files without data, so that they need no key; what they show needs one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import RedirectResponse

from app.dashboard.files import INDEX, StaticFile
from app.dependencies import ServicesDep
from app.errors import DashboardMissing, NotFound
from app.root_path import public_path
from app.routes.answers import Sliced
from app.routes.conditional import PreconditionDep, not_modified, strong_tag

FOLDER = "dashboard/"
A_YEAR_S = 31_536_000
router = APIRouter(include_in_schema=False)


@router.head("/")
@router.get("/")
async def go_to_dashboard(accept: Annotated[str, Header()] = "") -> Response:
    """Browsers go on to the dashboard; nothing else is here."""
    if "text/html" not in accept:
        raise NotFound("There is no /.")
    return _to_folder({"Vary": "Accept"})


@router.head("/dashboard")
@router.get("/dashboard")
async def go_to_folder() -> Response:
    """The files name each other relative to the folder."""
    return _to_folder()


@router.head("/dashboard/{name:path}")
@router.get("/dashboard/{name:path}")
async def get_dashboard_file(name: str, services: ServicesDep, known: PreconditionDep) -> Response:
    """A file of the dashboard, the index for the folder itself."""
    files = services.dashboard_files
    if not files:
        raise DashboardMissing(
            "Run `scripts/dashboard build` in the source, then start the service again. The API "
            "works without."
        )
    file = files.get(name or INDEX)
    if file is None:
        raise NotFound(f"The dashboard has no file {name}.")
    headers = {"ETag": strong_tag(file.digest), "Cache-Control": _caching(file)}
    if known.holds(headers["ETag"]):
        return not_modified(headers)
    return Sliced(file.content, media_type=file.media_type, headers=headers)


def _to_folder(headers: dict[str, str] | None = None) -> Response:
    # Relative where no prefix is known, so that it holds below whatever path a proxy serves this.
    prefix = public_path("")
    address = f"{prefix}/{FOLDER}" if prefix else FOLDER
    return RedirectResponse(address, status_code=307, headers=headers)


def _caching(file: StaticFile) -> str:
    return f"public, max-age={A_YEAR_S}, immutable" if file.is_hashed else "no-cache"
