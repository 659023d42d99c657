# The packages of the core run under the race detector; it makes the others slower than it is worth.
GO         ?= go
RACED      := . ./pgstore
TESTFLAGS  ?= -timeout 30m
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help demo test test-short race lint fmt fmt-check vet staticcheck tidy-check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run all tests, those of the core with the race detector
	$(GO) test $(TESTFLAGS) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(RACED))")
	$(GO) test $(TESTFLAGS) -race $(RACED)

test-short: ## run the tests that take seconds
	$(GO) test $(TESTFLAGS) -short ./...

race: ## run all tests with the race detector
	$(GO) test $(TESTFLAGS) -race ./...

demo: ## show a relay that is killed and loses nothing
	$(GO) run ./cmd/outbox demo

lint: fmt-check vet staticcheck tidy-check ## check the source without running it

fmt: ## format the source
	gofmt -w .

fmt-check: ## fail when a file is not formatted
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "not formatted, run make fmt:"; echo "$$files"; exit 1; fi

vet: ## run go vet, with and without failpoints
	$(GO) vet ./...
	$(GO) vet -tags failpoint ./...

staticcheck: ## run staticcheck, with and without failpoints
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags failpoint ./...

tidy-check: ## fail when go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
