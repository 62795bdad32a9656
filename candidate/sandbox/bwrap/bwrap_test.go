package bwrap_test

import (
	"context"
	"os"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/bwrap"
	"github.com/bestof-dev/bestof/candidate/sandbox/sandboxtest"
)

func newSandbox(o sandbox.Options) (sandbox.Sandbox, error) {
	return bwrap.New(context.Background(), o)
}

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m, newSandbox)) }

func TestContract(t *testing.T) {
	sandboxtest.Run(t, newSandbox, sandboxtest.Expect{Name: "bwrap", Filesystem: true, Processes: true, Network: true, Loopback: true})
}

func TestContractAsAnotherUser(t *testing.T) { sandboxtest.AsUser(t, 65534, "TestContract") }
