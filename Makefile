# Remit: how it is built, tested and checked. `make help` lists the targets.

SHELL := /bin/sh
GO ?= go
BIN := bin
TOOLS := $(BIN)/tools
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || cat VERSION 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

# One way of building for everything but the race detector, so that nothing is compiled twice.
export CGO_ENABLED ?= 0
export GOFLAGS := -trimpath $(GOFLAGS)

# Debian packages that some tests use; installed by `make test` where missing.
APT_TEST_PKGS ?= chromium curl dbus git groff-base haproxy jq openssh-client mariadb-server-core pgbouncer postgresql python3-pip rpm tmux

# MCP servers of other people, the Inspector and the conformance suite, with a Node
# of their own; installed where npm is.
NPM_TEST := internal/e2e/testdata/npm

# The agents themselves, which only `make agents` installs: they are large.
NPM_AGENTS := internal/e2e/testdata/agents

# Packages: for which architectures, who answers for them, and the OpenSSH key that
# signs the checksums (none: they are not signed). BASE is the folder that Homebrew and Nix download from.
ARCHS ?= amd64 arm64
MAINTAINER ?= Remit maintainers <maintainers@remit.invalid>
SIGNING_KEY ?=
BASE ?= https://releases.example.org/remit
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
DIST := dist

# The tests of the web UI in a browser, a module of their own, and the pictures in docs/ui.md.
NPM_UI := uitest
UI_SHOTS := ui-inbox-1280-light ui-session-1280-light ui-agent-1280-light ui-approval-1280-light ui-approval-380-dark ui-run-1280-dark ui-call-1280-light ui-changes-1280-light ui-grants-1280-light ui-tools-1280-light ui-policies-1280-light ui-refusals-380-dark ui-approvals-1280-light ui-sessions-380-dark ui-session-new-380-light ui-session-asks-1280-dark ui-files-380-light ui-agents-1280-light ui-agent-new-380-dark ui-config-380-light ui-capabilities-1280-dark ui-capability-1280-light ui-runs-1280-light ui-run-new-1280-light ui-changesets-380-light ui-grant-1280-dark ui-grant-new-380-dark ui-tool-1280-light ui-audit-1280-light ui-event-380-light ui-settings-1280-light ui-flow-1280-light

# How long one package's tests may take, and one fuzz target runs.
TEST_TIMEOUT ?= 25m
FUZZTIME ?= 10s
RACE_TIMEOUT ?= 30m
SOAK_TIMEOUT ?= 40m
AGENTS_TIMEOUT ?= 8h
CI_FUZZTIME ?= 500x

# SQLite is C in the form of Go, and wazero has a compiler, which works on data of its own.
# The race detector finds nothing in them and makes them five to ten times as slow, so their
# code alone is left out. Leaving out a package that uses sync.Map or atomics makes it report
# races that are none.
WAZEVO := github.com/tetratelabs/wazero/internal/engine/wazevo
RACE := -race $(patsubst %,-gcflags=%=-race=false,modernc.org/sqlite/lib $(WAZEVO)/backend/... $(WAZEVO)/ssa $(WAZEVO)/frontend)
# With the race detector each conversion of a pointer is checked, too. What SQLite has in the place of
# malloc consists of them.
RACE += $(patsubst %,-gcflags=%=-d=checkptr=0,modernc.org/libc/... modernc.org/memory modernc.org/sqlite)
# The tests of these packages start remit as it is built, in processes of its own that no race
# detector watches.
UNWATCHED := ./internal/e2e ./docs

.PHONY: all build packages demo demo-fleet escape agents test ui-test ui-bench ui-shots test-deps test-main test-beside test-left race test-after-race soak soak-fleet lint fmt fuzz fuzz-short bench bench-fleet cover cross clean help

all: build

build: ## bin/remit and bin/remit-hook: static binaries
	$(GO) build -buildvcs=auto -ldflags '$(LDFLAGS)' -o $(BIN)/remit ./cmd/remit
	$(GO) build -buildvcs=auto -ldflags '-s -w' -o $(BIN)/remit-hook ./cmd/remit-hook

packages: ## deb, rpm, apk, npm, container image, bill of materials and checksums, in dist/
	rm -rf $(DIST)
	for arch in $(ARCHS); do GOOS=linux GOARCH=$$arch $(MAKE) --no-print-directory build BIN=$(BIN)/packages/$$arch || exit 1; done
	cd packaging && SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' $(GO) run . -version '$(VERSION)' -maintainer '$(MAINTAINER)' -base '$(BASE)' -key '$(abspath $(SIGNING_KEY))' -out ../$(DIST) $(ARCHS:%=../$(BIN)/packages/%/remit)

demo: build ## an agent works, attacks and is undone; a plan runs, is verified and replayed
	$(GO) build -o $(BIN)/demo-server ./examples/demo/server
	sh examples/demo/run.sh

demo-fleet: build ## PostgreSQL, two nodes and a worker here; one node is killed in a turn
	@sh .ci/apt postgresql
	REMIT="$(CURDIR)/$(BIN)/remit" sh examples/fleet/run.sh

# The two modules beside the main one have one package of tests each, which uses one processor
# or waits for a browser, so they run while the others do.
# Servers of a version that was not tested may refuse more; the tests write that to a file.
export REMIT_TEST_WARNINGS := $(CURDIR)/$(BIN)/test-warnings
test: test-deps ## all tests
	@mkdir -p $(BIN) && rm -f $(REMIT_TEST_WARNINGS)
	@$(MAKE) --no-print-directory -j 2 test-main $(TEST_BESIDE); status=$$?; \
		test ! -s $(REMIT_TEST_WARNINGS) || { echo "warnings:"; cat $(REMIT_TEST_WARNINGS); }; exit $$status

TEST_PACKAGES ?= ./...
TEST_BESIDE ?= test-beside
test-main:
	$(GO) test -vet=off -timeout $(TEST_TIMEOUT) $(TEST_PACKAGES)

test-beside:
	cd packaging && $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...
	cd uitest && $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...

ui-test: test-deps ## the tests of the web UI in a browser
	cd uitest && $(GO) test -count=1 -timeout $(TEST_TIMEOUT) ./...

ui-bench: test-deps ## measure the web UI over a record of 100,000 calls, against its bars
	cd uitest && REMIT_UI_BENCH=100000 $(GO) test -count=1 -v -timeout $(TEST_TIMEOUT) -run TestBars .

ui-shots: test-deps ## take the pictures of docs/ui.md anew
	mkdir -p $(BIN)/ui-shots docs/images
	cd uitest && REMIT_UI_SHOTS=$(CURDIR)/$(BIN)/ui-shots $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run TestScreenshots .
	for name in $(UI_SHOTS); do install -m 644 $(BIN)/ui-shots/$$name.png docs/images/; done

escape: test-deps ## what a confined command must not be able to do: each attempt, as root and as an ordinary user
	$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run 'Escape|RefusedCalls|EveryAttempt|WayOut|Meet|Starve|OnlyOne|Inherited|Overwritten|Setuid|Typing|Hundred|WhatIsReached|WhatFiles|Outlives|Killing|KillNine|Cancel|Fresh|Leak|Spares|Bombs|OrdinaryUser|OwnProxy|Masked|Filter|MustNot|NoWayTo|AddressIsTheOne|OnlyOnceAllowed|HostAlone|Smuggling|BodiesEnd|OwnCredentials|CrowdOut|WhereTheyBelong|Swapped|MovedFolder|LinksOut|HardLinks|SpecialFiles|Rebinding|Motion|StaysWhere|BesideACommand|NamesAFile|OnlyWritten|HostMoves|HostMounts|ComeLater|ComesIn|EndOfTheRuntime|RuntimeIsStopped|ManyCalls|ThreadsChange|HarmNothing|TwoSandboxes|SettingsLead|SettingsThat|NamesAProgram|GitsFiles|EverySpelling|Meanwhile|HostReplaces|EndOfTheSupervisor' ./internal/confine/...

agents: ## agents and MCP servers of other makers: attacks through them fail, honest work does not (1.4 GB from npm)
	@command -v npm >/dev/null || sh .ci/apt npm
	@if ! test $(NPM_AGENTS)/node_modules/.package-lock.json -nt $(NPM_AGENTS)/package-lock.json; then \
		npm ci --prefix $(NPM_AGENTS) --ignore-scripts --no-audit --no-fund || echo "NO AGENTS: npm could not install them, so their tests are skipped"; fi
	REMIT_REGISTRY=1 REMIT_DAYS=$(CURDIR)/$(BIN)/days $(GO) test -count=1 -timeout $(AGENTS_TIMEOUT) -run 'TestReal(Agent|Servers)' -v ./internal/e2e

test-deps: # what the tests use beside Go
	@sh .ci/apt $(APT_TEST_PKGS)
	@command -v npm >/dev/null || sh .ci/apt npm
	@if command -v npm >/dev/null && ! test $(NPM_TEST)/node_modules/.package-lock.json -nt $(NPM_TEST)/package-lock.json; then \
		npm ci --prefix $(NPM_TEST) --ignore-scripts --no-audit --no-fund || echo "no npm packages: tests with MCP servers of other people are skipped, or fail in CI"; fi
	@if command -v npm >/dev/null && ! test $(NPM_UI)/node_modules/.package-lock.json -nt $(NPM_UI)/package-lock.json; then \
		npm ci --prefix $(NPM_UI) --ignore-scripts --no-audit --no-fund || echo "no axe-core: the accessibility of the web UI is not tested, or fails in CI"; fi

# The scripts of cmd/remit start remit with a race detector. By default each process with one
# sleeps for a second before it ends.
race: test-deps ## all tests under the race detector, at their normal size
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=10 $(GO) test $(RACE) -vet=off -timeout $(RACE_TIMEOUT) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(UNWATCHED))")

# The tests that make race does not run: those of packages that it does not watch, in files that are not built for
# it, and those that skip themselves.
test-after-race:
	@$(MAKE) --no-print-directory test TEST_BESIDE=test-left TEST_PACKAGES="$(UNWATCHED) $$(grep -rlE --include='*_test.go' '^//go:build !race' . | sed 's|/[^/]*$$||' | sort -u | tr '\n' ' ')"

test-left: test-beside
	@bash .ci/left-out $(TEST_TIMEOUT)

soak: test-deps cross build ## the long way: race detector, full crash, tamper and escape matrices, a ledger of 1,000,000 calls, fuzzing, cross builds, packages
	CGO_ENABLED=1 REMIT_SOAK=1 $(GO) test $(RACE) -timeout $(SOAK_TIMEOUT) ./...
	REMIT="$(CURDIR)/$(BIN)/remit" sh bench/run.sh --only growth --soak
	@sh .ci/apt $(APT_SOAK_PKGS)
	cd packaging && REMIT_SOAK=1 $(GO) test -timeout $(SOAK_TIMEOUT) ./...
	bash .ci/fuzz $(FUZZTIME)

# CHAOS is how long; CHAOS_SEED repeats the faults of a run, which prints its seed. CHAOS_ONLY puts the
# faults whose names have this text. CHAOS_POOL=none leaves PgBouncer out.
CHAOS ?= 5m
soak-fleet: ## clients at two nodes, and at one with a file, while random faults happen around them, for CHAOS=5m
	@sh .ci/apt postgresql pgbouncer haproxy
	REMIT_CHAOS=$(CHAOS) REMIT_CHAOS_SEED=$(CHAOS_SEED) REMIT_CHAOS_ONLY='$(CHAOS_ONLY)' REMIT_CHAOS_POOL=$(CHAOS_POOL) $(GO) test -overlay "$$(sh .ci/clock '$(CURDIR)/$(BIN)/.clock' '$(GO)')" -count=1 -timeout $(SOAK_TIMEOUT) -run '^TestChaos(SQLite)?$$' -v ./internal/e2e/fleet

cross: ## build and vet for the other platforms
	GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/remit ./cmd/remit-hook
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/remit ./cmd/remit-hook
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...

lint: $(TOOLS)/golangci-lint ## gofmt, golangci-lint (vet, staticcheck, revive, ...), the architecture test
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$out" || { echo "not gofmt'd:"; echo "$$out"; exit 1; }
	$(TOOLS)/golangci-lint run ./...
	cd packaging && ../$(TOOLS)/golangci-lint run ./...
	$(GO) test -vet=off -short . # without the program's size, which make test measures

fmt: ## format all Go files
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

# The tools are pinned in tools/go.mod and built once.
$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	cd tools && $(GO) build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

fuzz: ## every fuzz target for FUZZTIME
	bash .ci/fuzz $(FUZZTIME)

fuzz-short: # each fuzz target just long enough to try its corpus and its neighbours
	bash .ci/fuzz $(CI_FUZZTIME) plain

bench: build ## measure, beside comparable projects
	@sh .ci/apt bubblewrap
	REMIT="$(CURDIR)/$(BIN)/remit" sh bench/run.sh

bench-fleet: build ## measure several nodes on one PostgreSQL, beside bare inserts
	@sh .ci/apt postgresql
	REMIT="$(CURDIR)/$(BIN)/remit" sh bench/run.sh --only fleet

cover: ## test coverage, in bin/cover.html
	@mkdir -p $(BIN)
	$(GO) test -coverpkg=./... -coverprofile=$(BIN)/cover.out ./...
	$(GO) tool cover -html=$(BIN)/cover.out -o $(BIN)/cover.html
	$(GO) tool cover -func=$(BIN)/cover.out | tail -n 1

clean: ## remove what was built
	rm -rf $(BIN) dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' Makefile
