# One image for the API, the workers and the migration: `docker build --tag loadmaster .`
FROM python:3.13-slim-trixie AS builder

# Compiled for any CPU of the architecture: the image runs on others than the one it is built on.
ENV NUMBA_CPU_NAME=generic
WORKDIR /build

COPY requirements/runtime.lock requirements/
RUN python -m venv /opt/loadmaster \
    && /opt/loadmaster/bin/python -m pip install --no-cache-dir --no-compile --only-binary :all: \
        --require-hashes --requirement requirements/runtime.lock

COPY README.md LICENSE NOTICE THIRD-PARTY-LICENSES.md pyproject.toml ./
COPY app app/
COPY client client/
COPY embedded embedded/
COPY migrations migrations/
COPY planner planner/
COPY workers workers/
COPY scripts/prune_wheels.py scripts/
RUN /opt/loadmaster/bin/python -m pip install --no-cache-dir --no-compile --no-deps \
        --no-build-isolation . \
    && /opt/loadmaster/bin/python -m pip uninstall --yes pip setuptools \
    && python scripts/prune_wheels.py /opt/loadmaster/lib/python3.13/site-packages \
    && /opt/loadmaster/bin/python -m compileall -q -j 0 /opt/loadmaster/lib

# Outside of /build, whose folders would stand in for the installed packages.
WORKDIR /opt/loadmaster
RUN bin/python -m planner.warm_up \
    && mv cache/numba compiled \
    && mkdir -p cache \
    && ln -s /tmp/compiled cache/numba


FROM python:3.13-slim-trixie

RUN groupadd --gid 10001 loadmaster \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp \
        --shell /usr/sbin/nologin loadmaster \
    && install --directory --owner 10001 --group 10001 --mode 0700 /data

COPY --from=builder /opt/loadmaster /opt/loadmaster
COPY --chmod=0755 deploy/entrypoint /usr/local/bin/loadmaster-entrypoint

ENV PATH=/opt/loadmaster/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CPU_NAME=generic \
    LOADMASTER_WORKER_ALIVE_FILE=/tmp/worker-alive \
    PROMETHEUS_MULTIPROC_DIR=/tmp/metrics \
    LOADMASTER_DATA_DIR=/data

# Only /tmp and, where SQLite is used, /data are written to.
WORKDIR /opt/loadmaster
USER 10001:10001
EXPOSE 8400
STOPSIGNAL SIGTERM

# Of the API; a worker's is `python -m workers.health`.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-m", "app.health_check"]

ENTRYPOINT ["loadmaster-entrypoint"]
CMD ["api"]
