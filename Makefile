# Every target runs from a clean clone. `make test` is the whole check.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Versions of the tools come from tools/go.mod, which the library does not see.
TOOL := go tool -modfile=tools/go.mod

# The pinned browser server must use the system's Chromium, never fetch one.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD := 1

PEERS := internal/peers
PEERS_STAMP := $(PEERS)/node_modules/.installed
SUITES := $(PEERS)/conformance
SUITES_STAMP := $(SUITES)/node_modules/.installed
GO_FILES = $$(find . \( -name node_modules -o -name testdata -o -name .git \) -prune -o -name '*.go' -print)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: setup peers lint ## Everything that must pass before a commit, installing what is missing
	BRIDLE_PEERS=required go test -race -shuffle=on -timeout 240s ./...

.PHONY: quick
quick: ## Vet and short tests, without the race detector; needs only Go
	go vet ./...
	go test -short -shuffle=on -timeout 120s ./...

.PHONY: test-long
test-long: setup peers ## The long variants of the tests, the MCP conformance suites, then each fuzz target for 10 s
	BRIDLE_LONG=1 BRIDLE_PEERS=required go test -race -shuffle=on -timeout 30m ./...
	@$(MAKE) conformance
	@scripts/fuzz 10s

.PHONY: crash
crash: ## Kill a workflow 2,000 times, at every write, send and receive, and a webhook receiver for 5,000 events
	BRIDLE_CRASH=2000 go test -count=1 -timeout 60m -v -run TestARunThatIsKilledAnywhere ./internal/crash | grep -v -e '^=== ' -e '--- PASS'
	BRIDLE_CRASH_EVENTS=5000 go test -count=1 -timeout 20m -v -run TestEveryAcceptedEvent ./internal/triggercrash | grep -v -e '^=== ' -e '--- PASS'

.PHONY: lint
lint: fmt-check vet staticcheck mod-check ## gofmt, vet, staticcheck and the module files

.PHONY: fmt-check
fmt-check:
	@bad=$$(gofmt -l $(GO_FILES)); \
	if [ -n "$$bad" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$bad" >&2; exit 1; fi

.PHONY: fmt
fmt: ## Format every Go file
	gofmt -w $(GO_FILES)

.PHONY: vet
vet:
	@go vet ./...

.PHONY: staticcheck
staticcheck:
	@$(TOOL) staticcheck ./...

.PHONY: mod-check
mod-check:
	@go mod tidy -diff || { echo 'go.mod or go.sum is not tidy, run go mod tidy' >&2; exit 1; }
	@go -C tools mod tidy -diff || { echo 'tools/go.mod is not tidy, run go -C tools mod tidy' >&2; exit 1; }
	@go mod verify >/dev/null

.PHONY: setup
setup: ## Check for Go, a C compiler, Node and Chromium; on Debian as root, install them
	@scripts/setup

.PHONY: peers
peers: $(PEERS_STAMP) ## Install the pinned MCP servers that the tests talk to

$(PEERS_STAMP): $(PEERS)/package.json $(PEERS)/package-lock.json
	@echo 'installing the pinned MCP servers into $(PEERS)'
	@cd $(PEERS) && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error </dev/null
	@touch $@

.PHONY: conformance
conformance: $(SUITES_STAMP) ## Run the MCP project's client scenarios; needs root for a network of its own
	@scripts/conformance

$(SUITES_STAMP): $(SUITES)/package.json $(SUITES)/package-lock.json
	@echo 'installing the pinned conformance suites into $(SUITES)'
	@cd $(SUITES) && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error </dev/null
	@touch $@

.PHONY: bench
bench: ## Measure the promised figures; some of them with ONLY=mcp/ or ONLY='*/64'
	@go run ./bench -json bench/results.json -only '$(ONLY)'

.PHONY: microbench
microbench: ## Run the Go benchmarks; compare two outputs with: make benchstat OLD=a NEW=b
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: benchstat
benchstat:
	@$(TOOL) benchstat $(OLD) $(NEW)

.PHONY: clean
clean: ## Remove what was built and installed here
	rm -rf bin $(PEERS)/node_modules $(SUITES)/node_modules
	find . -name '*.test' -not -path './.git/*' -delete
