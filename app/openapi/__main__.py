"""Write docs/openapi.json.

    python -m app.openapi [FILE]

The document is that of a service which asks for keys; a test compares it with the code.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from app.main import create_app
from app.settings import Settings

FILE = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def document_text() -> str:
    """The document as it is kept."""
    document = create_app(Settings(authentication="keys")).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m app.openapi", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help="default: %(default)s")
    parser.parse_args().file.write_text(document_text(), "utf-8")
