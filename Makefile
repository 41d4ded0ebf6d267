# Holdfast. "make help" lists what there is.
#
# Nothing here is installed by hand: Go fetches what a target needs at a pinned
# version, and the control plane for tests is built once into the user's cache.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Builds are reproducible: no paths, no version-control stamp of the moment, no
# cgo, one toolchain. The evidence of a run is bound to the digest of the executable, so the
# same checkout must give the same bytes again, also with an untracked evidence
# directory in it.
REVISION := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
MODIFIED := $(shell git diff --quiet HEAD -- 2>/dev/null && echo false || echo true)
export CGO_ENABLED := 0
# Another Go writes other bytes, a patch release too. Where this one is not
# installed, Go fetches it like a module.
export GOTOOLCHAIN := go1.26.8
# The same flags everywhere, so that nothing is compiled twice.
export GOFLAGS := -trimpath
GOBUILD := go build -buildvcs=false -ldflags "-s -w -X main.revision=$(REVISION) -X main.modified=$(MODIFIED)"

GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the commands into bin/
	@mkdir -p bin
	$(GOBUILD) -o bin/ ./cmd/...

.PHONY: demo
demo: build ## show both commands on a real control plane: killed in the middle, and what becomes of it
	go run ./demo

.PHONY: test
test: ## run every test, on a real control plane
	go test -timeout 30m ./...

.PHONY: lint
lint: ## static analysis
	$(GOLANGCI_LINT) run ./...

.PHONY: verify
verify: ## what must be true before a change lands: format, tidy modules, vet, lint, known vulnerabilities
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go mod tidy -diff
	go -C test/controlplane/binaries mod tidy -diff
	go vet ./...
	$(MAKE) lint
	$(MAKE) vulnerabilities

# Installed, not "go run", which turns every exit code into 1: 3 says that there is a
# vulnerability, and any other one that nobody looked.
.PHONY: vulnerabilities
vulnerabilities: ## look for known vulnerabilities in what the commands call
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; code=0; \
	{ GOBIN=$$bin go install $(GOVULNCHECK) && "$$bin/govulncheck" ./...; } || code=$$?; \
	case $$code in 0) ;; 3) exit 3 ;; *) echo "govulncheck did not run (exit $$code): vulnerabilities not checked" >&2 ;; esac

.PHONY: bench
bench: build ## measure the preflight beside shell with kubectl
	go test -run '^$$' -bench . -benchtime 3x ./test/bench/...

RECOVERIES ?= 30
.PHONY: table
table: ## measure both strategies of flux-plunger side by side: the table of docs/design/fence.md
	go test -count 1 -timeout 20m -run '^$$' -bench '^BenchmarkStrategies$$' -benchtime $(RECOVERIES)x ./test/plunger

.PHONY: explore
explore: ## play the cleanup on every disk that a crash can leave, in every world
	@report=$$(mktemp); trap 'rm -f "$$report"' EXIT; \
	go test -count=1 -timeout 60m -v -run '^TestExplore$$' ./test/explore -args -full -report "$$report"; cat "$$report"

.PHONY: mutants
mutants: ## plant faults in what decides and see that the tests notice each of them
	go run ./test/mutants -generate internal/cleanup/decide,internal/preflight/decide,internal/plunger/decide \
	  -generate-short internal/evidence,internal/kube/classify.go,internal/kube/verdict.go -least 5100

# figures runs a test, and shows what it says of itself when it passes, and
# everything when it does not.
define figures
@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
if $(1) >"$$log" 2>&1; then grep -hoE '$(2)' "$$log"; else grep -vE '^(===|---| *--- PASS)' "$$log"; exit 1; fi
endef

FAULTS ?= all
.PHONY: faults
faults: ## run the real command with every disk fault at every operation; FAULTS=EIO,kill for some
	$(call figures,HOLDFAST_FAULTS=$(FAULTS) go test -count=1 -timeout 180m -v -run '^(TestFault.*|TestKilledAtEveryRequest)$$' ./test/preflight,faults: .*)

STRANGERS ?= 200
.PHONY: strangers
strangers: ## clean up beside a stranger in STRANGERS=200 random runs on a real control plane
	$(call figures,HOLDFAST_STRANGER_RUNS=$(STRANGERS) go test -count=1 -timeout 60m -v -run '^TestBesideAStranger$$' ./test/cleanup,strangers: .*)

FUZZ ?= 1m
.PHONY: fuzz
fuzz: ## run every fuzz target in the tree for FUZZ=1m each, as many side by side as there are cores
	go run ./test/fuzz -time $(FUZZ)

.PHONY: chart
chart: ## write what is derived from the chart: its README and the Kustomize form
	go run ./test/chart/generate

# The release is made without a container engine, and without a network beyond the
# Go module proxy. The tools have a module of their own, so that what they need is
# nothing that the commands link.
CYCLONEDX := go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
VERSION := $(shell awk '/^appVersion:/{print $$2}' charts/flux-plunger/Chart.yaml)
CHART_VERSION := $(shell awk '/^version:/{print $$2}' charts/flux-plunger/Chart.yaml)
ARCHS := amd64 arm64
IMAGE_DIR := dist/image/flux-plunger

test: test-release
.PHONY: test-release
test-release: ## test the tools of the release
	go -C tools/release test ./...

verify: verify-release
.PHONY: verify-release
verify-release: ## tidy and vet of the release tools' module
	go -C tools/release mod tidy -diff
	go -C tools/release vet ./...

# helm-unittest and Prometheus's engine have a module of their own too.
test: test-chart
.PHONY: test-chart
test-chart: ## test the chart with helm-unittest, its alerts with Prometheus's own engine
	go -C tools/chart test ./...
	go -C tools/chart tool helm-unittest --strict "$(CURDIR)/charts/flux-plunger"

verify: verify-chart
.PHONY: verify-chart
verify-chart: ## tidy and vet of the chart tools' module
	go -C tools/chart mod tidy -diff
	go -C tools/chart vet ./...

.PHONY: binaries
binaries: ## build the commands for every platform, each with its SBOM, into dist/
	@rm -rf dist && mkdir -p dist
	for arch in $(ARCHS); do for command in flux-plunger upgrade-production-images; do \
	  GOOS=linux GOARCH=$$arch $(GOBUILD) -o dist/$${command}_linux_$$arch ./cmd/$$command; \
	  $(CYCLONEDX) bin -json -std -noserial -notimestamp -version $(VERSION) -output dist/$${command}_linux_$$arch.cdx.json dist/$${command}_linux_$$arch; \
	  go -C tools/release run ./sbom "$(CURDIR)/dist/$${command}_linux_$$arch=$(CURDIR)/dist/$${command}_linux_$$arch.cdx.json"; \
	done; done

.PHONY: image
image: binaries ## build flux-plunger's image from scratch, as an OCI layout in dist/image
	@mkdir -p dist/image
	go -C tools/release run ./image --out "$(CURDIR)/$(IMAGE_DIR)" --name flux-plunger --revision $(REVISION) --version $(VERSION) \
	  $(foreach arch,$(ARCHS),"linux/$(arch)=$(CURDIR)/dist/flux-plunger_linux_$(arch)=$(CURDIR)/dist/flux-plunger_linux_$(arch).cdx.json") | tee dist/image/flux-plunger.digest

.PHONY: release
release: image ## put everything of a release into dist/: binaries, SBOMs, image, the chart with the image pinned, checksums
	go -C tools/release run ./chart --chart "$(CURDIR)/charts/flux-plunger" --digest $$(cat dist/image/flux-plunger.digest) --out "$(CURDIR)/dist/flux-plunger-$(CHART_VERSION).tgz"
	cd dist && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS

.PHONY: reproduce
reproduce: release ## make the release of this commit again in another folder, and compare every byte
	@other=$$(mktemp -d); trap 'rm -rf "$$other"' EXIT; git clone -q . "$$other/another folder"; \
	$(MAKE) -C "$$other/another folder" release >/dev/null; diff dist/SHA256SUMS "$$other/another folder/dist/SHA256SUMS" && echo "the same bytes twice"
