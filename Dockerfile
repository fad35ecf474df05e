# syntax=docker/dockerfile:1

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/tidings ./cmd/tidings \
    && mkdir -p /out/data

# distroless has CA certificates and time zones, no shell and no package manager.
FROM gcr.io/distroless/static-debian12:nonroot
LABEL org.opencontainers.image.title="Tidings" \
      org.opencontainers.image.description="Business events from RabbitMQ become their notifications once, with proof" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/tidings /usr/local/bin/tidings
COPY --from=build --chown=nonroot:nonroot /out/data /data
ENV TIDINGS_DATA=/data
VOLUME /data
EXPOSE 8420
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 CMD ["/usr/local/bin/tidings", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/tidings"]
CMD ["serve"]
