# Hermes in a container: the gateway by default, and every other `hermes` command as well.
#
#   docker build -t hermes .
#   docker run --rm -it -v hermes:/data hermes chat
#   docker run -d --init -v hermes:/data hermes
#
# compose.yaml has the same with a published API. Everything Hermes keeps is in the volume /data.

FROM python:3.13-slim AS build
# Without "local" the image is 100 MB smaller; the model inside the process is then fetched into
# the volume if nothing else is configured. --build-arg EXTRAS=all brings what runs it along.
ARG EXTRAS=api,discord,matrix,mcp,pdf,postgres,slack,telegram,ws
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/hermes \
    && /opt/hermes/bin/pip install --no-cache-dir --disable-pip-version-check ".[${EXTRAS}]"

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 hermes \
    && install --directory --owner=hermes --group=hermes --mode=0700 /data \
    && install --directory --owner=hermes --group=hermes /work
COPY --from=build /opt/hermes /opt/hermes
ENV PATH=/opt/hermes/bin:$PATH \
    HERMES_HOME=/data \
    LANG=C.UTF-8
USER hermes
# Where commands of the agent run; mount a project here to let it work on it.
WORKDIR /work
VOLUME /data
# The API server, where it is enabled; nothing listens otherwise.
EXPOSE 8642
# A running gateway holds a lock in the volume. `docker run … hermes chat` needs no check.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s \
    CMD hermes gateway status || exit 1
ENTRYPOINT ["hermes"]
CMD ["gateway", "run"]
