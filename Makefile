# The packages of the core run under the race detector, which makes the others slower than it is worth, and those that
# kill processes at named points are built with these points. MODULES are nested ones, which ./... leaves out. Tests are
# not vetted again: make lint does it once for all.
GO         ?= go
RACED      := . ./pgstore
POINTED    := ./internal/e2e ./internal/crashtest ./internal/failpoint
MODULES    := examples/orm bench/peers deploy/alerttest
TESTFLAGS  ?= -timeout 30m -vet=off
# What make chaos plays: messages for each order policy, random schedules in memory and, three at a time, on PostgreSQL.
# SEED repeats the choices of a run that printed it. MATRIX chooses rows of the matrix: a regular expression on
# fault/engine/destination/order. SOAK is how long make soak lasts, SOAK_TO its destination, JetStream or RabbitMQ.
CHAOS_MESSAGES  ?= 200000
CHAOS_SCHEDULES ?= 2000
CHAOS_ROUNDS    ?= 20
SEED            ?=
MATRIX          ?=
SOAK            ?= 1h
SOAK_TO         ?= JetStream
FUZZTIME        ?= 10s
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# What make versions runs: the folders of the server programs of each version, and what of whole relays is played on each.
POSTGRES_BINS   ?=
VERSIONS_PLAYED ?= DatabaseCrashes|RelaysKilledAtRandom|MixedFleet|EngineChanges|KilledInALargeTransaction|RedriveKilled
# Where vulnerabilities are looked up: a copy of the Go vulnerability database, as a URL (file: too); module, the newest
# golang.org/x/vulndb that the module proxy has; empty, vuln.go.dev.
VULNDB      ?=
VULNMODULE  = golang.org/x/vulndb@latest
GOVULNCHECK = $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0

.DEFAULT_GOAL := help
.PHONY: help demo test test-short race fuzz chaos matrix soak life versions bench bench-peers lint fmt fmt-check vet staticcheck tidy-check vuln

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## show a relay that is killed and loses nothing
	$(GO) run ./cmd/outbox demo

test: ## run all tests, those of the core with the race detector
	$(GO) test $(TESTFLAGS) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(RACED) $(POINTED))")
	$(GO) test $(TESTFLAGS) -race $(RACED)
	$(GO) test $(TESTFLAGS) -tags failpoint $(POINTED)
	for m in $(MODULES); do $(GO) -C $$m test $(TESTFLAGS) ./... || exit 1; done

test-short: ## run the tests that take seconds
	$(GO) test $(TESTFLAGS) -short ./...

race: ## run all tests with the race detector
	$(GO) test $(TESTFLAGS) -race ./...

fuzz: ## look for input that parsers and codecs do not stand, each of them for FUZZTIME
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f" && $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; \
	done

chaos: ## kill relays and stop a broker under load, play random schedules, in half an hour; SEED=n repeats a run's choices
	OUTBOX_TEST_CHAOS_MESSAGES=$(CHAOS_MESSAGES) OUTBOX_TEST_SEED=$(SEED) $(GO) test $(TESTFLAGS) -timeout 1h -parallel 1 -count=1 -v -tags failpoint -run '^Test(Chaos(Destinations)?|EngineChanges|KilledInALargeTransaction)$$' ./internal/e2e
	OUTBOX_TEST_CHAOS_MESSAGES=$(CHAOS_MESSAGES) $(GO) test $(TESTFLAGS) -count=1 -run '^TestStoreConformsStreaming$$' ./pgstore
	OUTBOX_TEST_IDLE=10m $(GO) test $(TESTFLAGS) -count=1 -v -run '^TestStreamOnAServer$$' ./pgstore
	$(GO) test $(TESTFLAGS) -count=1 -v -run TestSchedulesInMemory ./internal/schedule -rapid.checks=$(CHAOS_SCHEDULES) $(if $(SEED),-rapid.seed=$(SEED))
	$(GO) test $(TESTFLAGS) -count=1 -v -run TestSchedulesInPostgres ./internal/schedule -rapid.checks=$(CHAOS_ROUNDS) $(if $(SEED),-rapid.seed=$(SEED))

matrix: ## play every fault at every engine, destination and order, and write the table into docs/guarantees.md, in half an hour
	OUTBOX_TEST_MATRIX='$(MATRIX)' OUTBOX_TEST_MATRIX_PAGE=$(CURDIR)/docs/guarantees.md OUTBOX_TEST_SEED=$(SEED) $(GO) test -timeout 3h -parallel 3 -count=1 -v -run '^TestMatrix$$' ./internal/e2e

soak: ## play random faults for an hour under constant load: nothing lost, memory, connections and dead rows bounded
	OUTBOX_TEST_SOAK=$(SOAK) OUTBOX_TEST_SOAK_DESTINATION=$(SOAK_TO) OUTBOX_TEST_SEED=$(SEED) $(GO) test -timeout 25h -count=1 -v -run '^TestSoak$$' ./internal/e2e

life: ## the life cycle at product size: archived messages, a killed redrive, millions of messages behind and looked at
	OUTBOX_TEST_ARCHIVED=100000 $(GO) test $(TESTFLAGS) -count=1 -v -run '^TestArchiveExpires$$' ./pgstore
	OUTBOX_TEST_REDRIVE_MESSAGES=10000 $(GO) test $(TESTFLAGS) -count=1 -v -run '^TestRedriveKilled$$' ./internal/e2e
	OUTBOX_TEST_SAMPLED=10000000 $(GO) test $(TESTFLAGS) -count=1 -v -run '^TestSampleOfMillions$$' ./pgstore
	OUTBOX_TEST_BEHIND=2000000 $(GO) test $(TESTFLAGS) -count=1 -v -run '^TestThreeAtNight$$' ./cmd/outbox

versions: ## test store, consumers and whole relays on other versions of PostgreSQL: POSTGRES_BINS='/opt/pg14/bin /opt/pg18/bin'
	@test -n '$(POSTGRES_BINS)' || { echo "POSTGRES_BINS is empty: name the folders of the servers' programs, POSTGRES_BINS='/opt/pg14/bin /opt/pg18/bin'"; exit 2; }
	for dir in $(POSTGRES_BINS); do \
		"$$dir/postgres" --version && export OUTBOX_TEST_POSTGRES_URL= OUTBOX_TEST_POSTGRES_DIRS="$$dir" && \
		$(GO) test $(TESTFLAGS) -count=1 ./pgstore ./inbox ./internal/sqldrivers ./internal/devservices/pgdev && \
		$(GO) test $(TESTFLAGS) -count=1 -tags failpoint -run '^Test($(VERSIONS_PLAYED))$$' ./internal/e2e || exit 1; \
	done

bench: ## measure on a private server, in half an hour; BENCHFLAGS=-short takes some minutes, see docs/benchmarks.md
	$(GO) run ./bench $(BENCHFLAGS)

bench-peers: ## measure other systems by the same instruments
	$(GO) -C bench/peers run . $(BENCHFLAGS)

lint: fmt-check vet staticcheck tidy-check ## check the source without running it

fmt: ## format the source
	gofmt -w .

fmt-check: ## fail when a file is not formatted
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "not formatted, run make fmt:"; echo "$$files"; exit 1; fi

vet: ## run go vet, with and without failpoints
	$(GO) vet ./...
	$(GO) vet -tags failpoint $(POINTED)
	for m in $(MODULES); do $(GO) -C $$m vet ./... || exit 1; done

staticcheck: ## run staticcheck, with and without failpoints
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags failpoint $(POINTED)
	for m in $(MODULES); do (cd $$m && $(STATICCHECK) ./...) || exit 1; done

vuln: ## look for known vulnerabilities in the code that is called; asks vuln.go.dev, with VULNDB=module the module proxy
	@db='$(VULNDB)'; if [ "$$db" = module ]; then \
		module=$$($(GO) mod download -json $(VULNMODULE)) || { echo "$$module"; exit 1; }; \
		echo "$$module" | grep '"Version"'; \
		db="file://$$(echo "$$module" | sed -n 's/^.*"Dir": "\(.*\)",*$$/\1/p')/data/osv"; \
	fi; \
	found=; for m in . $(MODULES); do echo "module in $$m" && $(GOVULNCHECK) $${db:+-db "$$db"} -C $$m ./... || found="$$found $$m"; done; \
	test -z "$$found" || { echo "found in:$$found"; exit 1; }

tidy-check: ## fail when a go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	for m in $(MODULES); do $(GO) -C $$m mod tidy -diff || exit 1; done
