# One image for every command of wane, docs/operations.md has more:
#   docker build -t wane .
#   docker run --rm -v "$PWD/data:/data" wane ingest --config /data/wane.toml
# A tag may move: docs/security.md says how to build on one image and no other.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}

# Spark runs on Java.
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

# The packages wane needs change seldom, its sources often: so they are layers of their own.
WORKDIR /src
COPY pyproject.toml requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock

COPY wane.py ./
COPY sketches sketches
COPY store store
COPY ingest ingest
COPY dashboard dashboard
COPY demo demo
RUN pip install --no-cache-dir --no-deps .

# The mounted folder must belong to this user: docker build --build-arg UID="$(id -u)" -t wane .
ARG UID=1000
RUN useradd --uid "$UID" --create-home wane \
    && install -d -o wane -g wane /data /var/cache/wane /usr/local/share/wane
USER wane
WORKDIR /data
VOLUME /data

# numba keeps compiled kernels here, because the user cannot write beside the sources; Java's classes are in share/wane.
# Then the demo: the build fails if this image cannot do its job.
ENV NUMBA_CACHE_DIR=/var/cache/wane
RUN python -m ingest.driver.prepare
RUN wane demo --folder /tmp/demo --calls 20000 --no-dashboard && rm -rf /tmp/demo

# Process 1 gets no other signal than those it asks for, and Python asks for this one.
STOPSIGNAL SIGINT

# A dashboard or a server must answer at the port it was given; any other command needs Java and a folder to write to.
HEALTHCHECK --interval=1m --timeout=30s --start-period=1m CMD python -m dashboard.health_check

ENTRYPOINT ["wane"]
CMD ["--help"]
