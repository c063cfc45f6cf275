"""Write docs/openapi.json.

    python -m app.openapi [FILE]

The document is that of a service which asks for keys; a test compares it with the code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from app.main import create_app
from app.settings import Settings

FILE = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def document_text() -> str:
    """The document as it is kept."""
    document = create_app(Settings(authentication="keys")).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(document_text(), "utf-8")
