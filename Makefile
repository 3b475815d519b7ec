# `make run` and `make test` are all the set-up there is: with Rust, a C++ compiler and Python 3 here, they fetch the rest.
.DEFAULT_GOAL := help
.PHONY: help run cluster test ci fmt lint deny simulate scenarios bench-compare bench-values bench-memory bench-latency bench-micro bench-cluster clean
MAKEFLAGS += --no-print-directory

CARGO_DENY := .cache/tools/bin/cargo-deny
CARGO_DENY_VERSION := 0.20.2
READY_FILE := .cache/run/ready.json

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and start a node on the default ports, and say how to try it
	@cargo build --release --locked -p tollgate
	@mkdir -p $(dir $(READY_FILE)) && rm -f $(READY_FILE)
	@# The waiter ends with the node: after `exec`, the node has this shell's process id.
	@(while kill -0 $$$$ 2>/dev/null && ! test -s $(READY_FILE); do sleep 0.1; done; \
	  test -s $(READY_FILE) && printf '%s\n' '' 'Try it:' \
	    '  redis-cli RL.CHECK user:42 LIMIT 5 PER 1m' \
	    '  redis-cli CL.THROTTLE user:43 4 5 60' \
	    '  curl -s localhost:8379/v1/check -H content-type:application/json -d'" '{\"key\":\"user:42\",\"limit\":5,\"per\":\"1m\"}'" '') & \
	  exec target/release/tollgate serve --ready-file $(READY_FILE) $(ARGS)

cluster: ## Build and start the three nodes and the load of docker-compose.yml, as plain processes on loopback
	@cargo build --release --locked -p tollgate
	@exec python3 tests/cluster.py $(ARGS)

test: ## Run every test; make test T=word for those whose name contains the word
	@python3 tests/run.py $(T)

ci: ## All that must pass before a change lands
	@bash .ci/run

fmt: ## Format the Rust code
	cargo fmt --all

lint: deny ## Formatting, clippy, documentation and dependencies, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

deny: $(CARGO_DENY) ## Licences and sources of the dependencies
	$(CARGO_DENY) --log-level warn --locked check licenses bans sources

# Unoptimised: it compiles in half the time and checks a tree in a second all the same.
$(CARGO_DENY):
	cargo install --quiet --locked --debug --root .cache/tools cargo-deny@$(CARGO_DENY_VERSION)

simulate: ## The cluster's decisions in a simulator: 1,000 seeds, or SEED=n, or SEEDS=n FIRST=n
	@SEEDS=$(or $(SEEDS),1000) $(if $(FIRST),FIRST=$(FIRST)) $(if $(SEED),SEED=$(SEED)) \
	  cargo test --quiet --locked -p tollgate-cluster --lib simulation_of_many_seeds -- --nocapture

scenarios: ## What clusters of processes admit while nodes join, leave and die, as a table; ONLY=word for some of them
	@python3 tests/run.py --scenarios $(ONLY)

bench-compare: ## Beside Redis: CPU an operation and throughput
	cargo bench --bench compare -- $(ARGS)

bench-values: ## Beside Redis: values and scripts, CPU an operation
	cargo bench --bench values -- $(ARGS)

bench-memory: ## Beside Redis: bytes a bucket
	cargo bench --bench memory -- $(ARGS)

bench-latency: ## Beside Redis: latency at a fixed rate, and while growing and sweeping
	cargo bench --bench latency -- $(ARGS)

bench-micro: ## The parts of the hot path one by one
	cargo bench --bench micro -- $(ARGS)

bench-cluster: ## What a cluster costs, and how fast it is
	cargo bench --bench cluster -- $(ARGS)

clean: ## Remove what was built and fetched
	cargo clean
	rm -rf .cache
