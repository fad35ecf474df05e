# Needs Go, git and make. RabbitMQ for demo and test is found, or installed, by bridge/bridgetest.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)
ARGS     ?=
FUZZTIME ?= 10s
TOOL     := go tool -modfile=.ci/tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help build demo bench test lint fuzz

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the static binary bin/tidings
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/tidings ./cmd/tidings

demo: ## See it work: sample events from RabbitMQ to mail, webhooks and ledger (ARGS=oncall or saas for other examples, ARGS=--exit to leave at the end)
	@$(MAKE) --no-print-directory build >&2
	@bin/tidings demo $(ARGS)

bench: ## Measure the way in, the whole way and a rebuild of the ledger, small (ARGS='--count 50000 --json', say, for more)
	@$(MAKE) --no-print-directory build >&2
	@bin/tidings bench bridge --count 5000 $(ARGS)
	@bin/tidings bench dispatch --count 2000 --steady 2s $(ARGS)
	@bin/tidings bench rebuild --records 50000 --rounds 1 $(filter --json,$(ARGS))

test: ## Run all tests with the race detector, on a real RabbitMQ and NATS
	@.ci/setup >&2
	CGO_ENABLED=1 go test -race -timeout 30m ./...
	@# More seeds than the race detector has time for.
	go test -timeout 5m ./dispatcher/simulation
	@# A library has a race of its own there.
	go test -timeout 5m -run LosesItsConnection ./bridge

lint: ## Check with vet, staticcheck and gofumpt, and that imports keep to the ladder
	go vet ./...
	$(TOOL) staticcheck ./...
	@unformatted="$$($(TOOL) gofumpt -l .)" || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "not formatted, run: $(TOOL) gofumpt -w ." >&2; echo "$$unformatted" >&2; exit 1; \
	fi
	go test -count=1 -run '^TestLadder' ./cmd/internal

fuzz: ## Run every fuzz target for FUZZTIME (10s)
	@.ci/fuzz $(FUZZTIME)
