# `make test` is everything that CI runs. On a new machine, as root, it first
# installs the programs that the tests use for real; elsewhere it names them.
SHELL := /bin/bash
GO ?= go

.PHONY: all build install test check race fuzz bench release tools clean

all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/bestof ./cmd/bestof

install:
	CGO_ENABLED=0 $(GO) install -trimpath ./cmd/bestof

# Programs are fetched while the code is compiled for the first time.
test:
	$(MAKE) -j2 --output-sync=target tools check
	$(MAKE) race

tools:
	bash .ci/tools

# What vet compiles serves every test that builds the program as it is shipped.
check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt these: $$unformatted"; exit 1; fi
	$(GO) mod verify
	CGO_ENABLED=0 $(GO) vet -trimpath ./...

# The race detector makes every program wait for a second before it exits unless
# it is told not to; here programs start and end by the thousand. Tests wait more
# than they compute, so that three packages at a time keep two cores busy. `check`
# has vetted all of it. Seventy programs are linked, sooner without what only a
# debugger reads. The command line takes longest, so it is first. Supervisors and
# other processes that tests start by the thousand are not raced, except by the
# tests of supervisors; and Python is called by its own name, where python3 is a
# script that looks for it.
race: export GORACE = atexit_sleep_ms=0
race: export BESTOF_TEST_PLAIN = $(CURDIR)/bin/plain
race:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w" -o bin/plain/ ./cmd/bestof ./candidate/sandbox/sandboxtest/probes
	python=$$(python3 -c 'import sys; print(sys.executable)'); \
	[ "$$(command -v python3)" = "$$python" ] || PATH="$${python%/*}:$$PATH"; \
	$(GO) test -race -vet=off -ldflags="-s -w" -shuffle=on -p 3 -timeout 60m ./cmd/bestof/app ./...

# Every fuzz target, FUZZTIME each.
FUZZTIME ?= 10s
fuzz:
	bash .ci/fuzz $(FUZZTIME)

bench:
	$(GO) test -run '^$$' -bench . -benchtime 3x ./...

# Everything of a release, in dist/; the same bytes wherever it is made.
release:
	GO=$(GO) bash .ci/release dist

# The pictures of docs/view.md, as the test of the pages in a browser sees them.
pictures:
	BESTOF_PICTURES=$(CURDIR)/docs $(GO) test -count=1 -run '^TestViewInABrowser$$' ./cmd/bestof/app

clean:
	rm -rf bin dist
