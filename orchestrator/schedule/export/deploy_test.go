package export

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// TestExampleOfDeploy holds deploy/kubernetes's example of a job against what
// the export writes.
func TestExampleOfDeploy(t *testing.T) {
	const file = "../../../deploy/kubernetes/bestof-job-nightly.yaml"
	o := options
	o.Image = "registry.example.com/bestof@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	files, _, err := Files(Kubernetes, []schedule.Job{job("nightly", "0 2 * * *", "Europe/Berlin")}, o)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files[0].Text, string(want)); diff != "" {
		t.Errorf("%s is not what the export writes (-export +file):\n%s", file, diff)
	}
}
