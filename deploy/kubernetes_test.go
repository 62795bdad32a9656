package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/deploy/schema"
)

// kubernetes reads a manifest of deploy/kubernetes.
func kubernetes(t *testing.T, name string) []any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := schema.Read(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(objects) != 1 {
		t.Fatalf("%s has %d objects", name, len(objects))
	}
	return objects
}

func TestKustomization(t *testing.T) {
	k := kubernetes(t, "kustomization.yaml")[0].(*schema.Kustomization)
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		kubernetes(t, name)
		if apart := name == "kustomization.yaml" || name == "once.yaml"; slices.Contains(k.Resources, name) == apart {
			t.Errorf("%s: a resource of the kustomization? %v", name, !apart)
		}
	}
	if len(k.Resources) != len(files)-2 {
		t.Errorf("it names %v, and there are %v", k.Resources, files)
	}
	namespace := kubernetes(t, "namespace.yaml")[0].(*schema.Namespace)
	if namespace.Metadata.Name != k.Namespace || namespace.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace is %+v", namespace.Metadata)
	}
	claim := kubernetes(t, "state.yaml")[0].(*schema.Claim)
	once := kubernetes(t, "once.yaml")[0].(*schema.Job)
	nightly := kubernetes(t, "bestof-job-nightly.yaml")[0].(*schema.CronJob)
	policy := kubernetes(t, "network.yaml")[0].(*schema.NetworkPolicy)
	for what, template := range map[string]schema.Template{"once": once.Spec.Template, "nightly": nightly.Spec.JobTemplate.Spec.Template} {
		pod := template.Spec
		if !slices.ContainsFunc(pod.Volumes, func(v schema.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Metadata.Name
		}) {
			t.Errorf("%s does not have the volume %s", what, claim.Metadata.Name)
		}
		for k, v := range policy.Spec.PodSelector.MatchLabels {
			if template.Metadata.Labels[k] != v {
				t.Errorf("the network policy does not select %s", what)
			}
		}
		if image, _, _ := strings.Cut(pod.Containers[0].Image, "@"); len(k.Images) != 1 || image != k.Images[0].Name {
			t.Errorf("%s has the image %s, which the kustomization does not replace", what, image)
		}
	}
	if p := policy.Spec; !slices.Equal(p.PolicyTypes, []string{"Ingress", "Egress"}) || len(p.Ingress) != 0 {
		t.Errorf("somebody reaches the pods: %+v", p)
	}
	for _, rule := range policy.Spec.Egress {
		for _, to := range rule.To {
			if to.IPBlock != nil && (len(to.IPBlock.Except) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port != 443) {
				t.Errorf("the pods reach %+v", rule)
			}
		}
	}
}

// TestSchemaIsStrict: what an API server would refuse, the schema does.
func TestSchemaIsStrict(t *testing.T) {
	text, err := os.ReadFile("kubernetes/bestof-job-nightly.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for what, replace := range map[string][2]string{
		"unknown field":   {"suspend: false", "suspended: false"},
		"kind":            {"kind: CronJob", "kind: CornJob"},
		"type":            {"startingDeadlineSeconds: 604800", "startingDeadlineSeconds: soon"},
		"schedule":        {`schedule: "0 2 * * *"`, `schedule: "0 2 * *"`},
		"root":            {"runAsNonRoot: true", "runAsNonRoot: false"},
		"capabilities":    {`drop: ["ALL"]`, `drop: []`},
		"privileges":      {"allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"},
		"tag":             {"@sha256:", ":"},
		"token":           {"automountServiceAccountToken: false", "automountServiceAccountToken: true"},
		"restart":         {"restartPolicy: Never", "restartPolicy: Always"},
		"volume":          {"- name: tmp\n                  mountPath", "- name: temp\n                  mountPath"},
		"duplicate field": {"  suspend: false\n", "  suspend: false\n  suspend: true\n"},
	} {
		changed := strings.Replace(string(text), replace[0], replace[1], 1)
		if changed == string(text) {
			t.Fatalf("%s: nothing to replace", what)
		}
		if _, err := schema.Read([]byte(changed)); err == nil {
			t.Errorf("%s is not refused", what)
		}
	}
}
