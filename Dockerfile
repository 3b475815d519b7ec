# The binary alone. docker-compose.yml builds it; nobody publishes an image.
FROM rust:1-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /tollgate
COPY . .
RUN cargo build --release --locked -p tollgate

FROM debian:bookworm-slim
RUN useradd --system --no-create-home tollgate
COPY --from=build /tollgate/target/release/tollgate /usr/local/bin/tollgate
USER tollgate
# Clients, clients of Redis Cluster, HTTP, peers.
EXPOSE 6379 6380 8379 7379/tcp 7379/udp
ENTRYPOINT ["tollgate"]
CMD ["serve"]
