"""Whether the API of this container answers: `python -m app.health_check` ends with 0 or 1."""

from __future__ import annotations

import http.client
import sys

PORT = 8400
TIMEOUT_S = 4.0


def answers(port: int) -> bool:
    """Whether `/healthz` of the API on this machine says so."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if answers(int(sys.argv[1]) if len(sys.argv) > 1 else PORT) else 1)
