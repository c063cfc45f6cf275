"""What happens when processes are killed, servers hang, and many ask for the same at once.

    python -m pytest tests/chaos                # the short form, less than a minute a file
    CHAOS=long python -m pytest tests/chaos     # the whole of it, an hour

`CHAOS_SEED` is the seed of what is random (each test prints its own), `CHAOS_RECORD` a file to
which the figures are appended as lines of JSON.
"""
