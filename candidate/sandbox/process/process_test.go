package process_test

import (
	"os"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/candidate/sandbox/sandboxtest"
)

func newSandbox(o sandbox.Options) (sandbox.Sandbox, error) { return process.New(o), nil }

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m, newSandbox)) }

func TestContract(t *testing.T) {
	sandboxtest.Run(t, newSandbox, sandboxtest.Expect{Name: "process", Network: true, Loopback: true})
}

func TestContractAsAnotherUser(t *testing.T) { sandboxtest.AsUser(t, 65534, "TestContract") }
