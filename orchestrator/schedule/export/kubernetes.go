package export

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// cronJob is a CronJob that the restricted standard for pods admits.
func (p plan) cronJob(o Options) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by bestof job export --format kubernetes")
	for _, n := range p.notes {
		line("# note: %s", n)
	}
	line(`apiVersion: batch/v1
kind: CronJob
metadata:
  name: bestof-%[1]s
  labels:
    app.kubernetes.io/name: bestof
    bestof.dev/job: %[2]s
spec:
  schedule: %[3]s
  timeZone: %[4]s`, p.job.Name, quoted(p.job.Name), quoted(p.times[0]), quoted(p.zone))
	line("  concurrencyPolicy: %s", concurrency(p.job.Policy.Overlap))
	line("  startingDeadlineSeconds: %d", startingDeadline(p.job.Policy.Missed))
	line("  suspend: %t", p.job.Paused)
	line("  successfulJobsHistoryLimit: 3\n  failedJobsHistoryLimit: 3\n  jobTemplate:\n    spec:")
	line("      # bestof itself tries again what the host failed, and nothing else.\n      backoffLimit: 0")
	if limit := longest(p.job.Policy); limit > 0 {
		line("      activeDeadlineSeconds: %d", limit)
	}
	line(`      template:
        metadata:
          labels:
            app.kubernetes.io/name: bestof
            bestof.dev/job: %[1]s
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 120
          automountServiceAccountToken: false
          enableServiceLinks: false
          securityContext:
            runAsNonRoot: true
            runAsUser: 65532
            runAsGroup: 65532
            fsGroup: 65532
            fsGroupChangePolicy: OnRootMismatch
            seccompProfile:
              type: RuntimeDefault
          containers:
            - name: bestof
              image: %[2]s
              command: [%[3]s]
              args: ["job", "run", %[1]s]
              env:
                - name: BESTOF_HOME
                  value: %[4]s
                - name: HOME
                  value: %[5]s`, quoted(p.job.Name), quoted(o.Image), literal(o.Program), literal(o.Home), literal(o.Mount))
	if o.Path != "" {
		line("                - name: PATH\n                  value: %s", literal(o.Path))
	}
	line(`              envFrom:
                # Keys of models: kubectl create secret generic bestof --from-env-file=FILE
                - secretRef:
                    name: bestof
                    optional: true
              securityContext:
                allowPrivilegeEscalation: false
                readOnlyRootFilesystem: true
                capabilities:
                  drop: ["ALL"]
              resources:
                requests:
                  cpu: "1"
                  memory: 1Gi
                limits:
                  memory: 4Gi
              volumeMounts:
                - name: state
                  mountPath: %s
                - name: tmp
                  mountPath: /tmp
          volumes:
            - name: state
              persistentVolumeClaim:
                claimName: bestof-state
            - name: tmp
              emptyDir: {}`, quoted(o.Mount))
	return b.String()
}

func concurrency(o schedule.Overlap) string {
	if o == schedule.OverlapReplace {
		return "Replace"
	}
	return "Forbid"
}

// startingDeadline is how late a fire may be, in seconds. Less than ten would
// let a slow controller miss them all.
func startingDeadline(m schedule.Missed) int64 {
	late := m.Grace
	if m.Mode == schedule.MissedOnce {
		late = m.Horizon
	}
	return min(max(int64(late/time.Second), 60), 400*24*3600)
}

// quoted is a string of YAML: those of JSON are.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string is always written
	return string(b)
}

// literal is a string of which Kubernetes replaces nothing: $(NAME) would be a
// variable, and $$ is one dollar sign.
func literal(s string) string { return quoted(strings.ReplaceAll(s, "$", "$$")) }
