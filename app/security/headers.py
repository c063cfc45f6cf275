"""Header fields of every answer: the version, and what browsers are to make of it and what not."""

from __future__ import annotations

from planner.version import __version__

_COMMON = (
    # By which clients tell whether they can work with this service (client/library/versions.py).
    ("loadmaster-version", __version__),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    # Of one caller; kept only to be asked about again by its ETag.
    ("cache-control", "private, no-cache"),
)
_NOTHING = ("content-security-policy", "default-src 'none'; frame-ancestors 'none'")
# Its scripts and styles are files of its own, and it asks nobody but this service.
_DASHBOARD = (
    "content-security-policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
)
# The pages that show the API description, whose scripts come from a public CDN.
_DOCS = (
    "content-security-policy",
    "default-src 'none'; frame-ancestors 'none'; connect-src 'self'; worker-src blob:; "
    "script-src 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'unsafe-inline' https://cdn.jsdelivr.net https://fonts.googleapis.com; "
    "font-src https://fonts.gstatic.com; "
    "img-src 'self' data: https://fastapi.tiangolo.com https://cdn.redoc.ly",
)
# What is before it depends on the proxy in front of the service.
DOCS_PATHS = ("/docs", "/redoc")
DASHBOARD_PATH = "/dashboard/"


def security_headers(path: str) -> tuple[tuple[str, str], ...]:
    """The fields of an answer at this path, which an answer may have set otherwise."""
    return (*_COMMON, _policy(path))


def _policy(path: str) -> tuple[str, str]:
    if path.startswith(DASHBOARD_PATH):
        return _DASHBOARD
    return _DOCS if path.endswith(DOCS_PATHS) else _NOTHING
