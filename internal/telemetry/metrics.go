package telemetry

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A kind of a metric, as the text format of Prometheus calls it.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// A metric is what is counted. Its labels are few and their values come from
// short lists, or are bounded by maxSeries.
type metric struct {
	name   string
	help   string
	kind   kind
	labels []string
}

// The metrics.
var (
	buildInfo     = metric{"bestof_build_info", "1, with the version of bestof.", gauge, []string{"version"}}
	runsTotal     = metric{"bestof_runs_total", "Runs that ended, by exit status.", counter, []string{"exit_code"}}
	runSeconds    = metric{"bestof_run_duration_seconds", "How long runs took.", histogram, nil}
	runsNow       = metric{"bestof_runs_running", "Runs that are going on.", gauge, nil}
	candsTotal    = metric{"bestof_candidates_total", "Candidates that ended, by agent and outcome.", counter, []string{"agent", "outcome"}}
	candsNow      = metric{"bestof_candidates", "Candidates by state, those that ended left out.", gauge, []string{"state"}}
	phaseSeconds  = metric{"bestof_candidate_phase_duration_seconds", "How long candidates were in a state.", histogram, []string{"state"}}
	stepSeconds   = metric{"bestof_step_duration_seconds", "How long the steps of runs took that are no candidate's.", histogram, []string{"step"}}
	tokensTotal   = metric{"bestof_tokens_total", "Tokens that agents reported, both directions together.", counter, nil}
	costTotal     = metric{"bestof_cost_usd_total", "US dollars that agents reported.", counter, nil}
	tasksNow      = metric{"bestof_batch_tasks", "Tasks of the batch by state.", gauge, []string{"state"}}
	jobRunsTotal  = metric{"bestof_job_runs_total", "Runs of jobs that ended, by job and outcome.", counter, []string{"job", "outcome"}}
	jobRunSeconds = metric{"bestof_job_run_duration_seconds", "How long runs of jobs took.", histogram, []string{"job"}}
	jobQueue      = metric{"bestof_job_fires_waiting", "Fires of jobs that wait to be run.", gauge, nil}
	jobRunsNow    = metric{"bestof_job_runs_running", "Runs of jobs that are going on.", gauge, nil}
	spansLost     = metric{"bestof_telemetry_spans_lost_total", "Spans that could not be sent.", counter, nil}
)

var allMetrics = []metric{
	buildInfo, runsTotal, runSeconds, runsNow, candsTotal, candsNow, phaseSeconds, stepSeconds, tokensTotal, costTotal,
	tasksNow, jobRunsTotal, jobRunSeconds, jobQueue, jobRunsNow, spansLost,
}

// buckets are the upper bounds of histograms, in seconds: from a moment to a day.
var buckets = []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400}

// maxSeries bounds how many values of labels one metric has. What is beyond is
// counted as "other".
const maxSeries = 500

// A series is the value of a metric for certain labels.
type series struct {
	value   float64
	buckets []uint64
	count   uint64
}

// A registry holds the values. Its methods may be called concurrently.
type registry struct {
	mu     sync.Mutex
	values map[string]map[string]*series // by name of the metric, then by labels as they are written
}

func newRegistry() *registry { return &registry{values: map[string]map[string]*series{}} }

// at is the series of a metric; the registry is locked.
func (r *registry) at(m metric, values []string) *series {
	all := r.values[m.name]
	if all == nil {
		all = map[string]*series{}
		r.values[m.name] = all
	}
	key := labels(m.labels, values)
	s := all[key]
	if s == nil && len(all) >= maxSeries {
		other := slices.Repeat([]string{"other"}, len(m.labels))
		key = labels(m.labels, other)
		s = all[key]
	}
	if s == nil {
		s = &series{}
		if m.kind == histogram {
			s.buckets = make([]uint64, len(buckets))
		}
		all[key] = s
	}
	return s
}

// add adds to a counter or a gauge.
func (r *registry) add(m metric, by float64, values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(m, values).value += by
}

// set sets a gauge, or a counter that somebody else counts.
func (r *registry) set(m metric, to float64, values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(m, values).value = to
}

// observe adds to a histogram.
func (r *registry) observe(m metric, v float64, values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.at(m, values)
	v = max(v, 0)
	s.value, s.count = s.value+v, s.count+1
	for i, bound := range buckets {
		if v <= bound {
			s.buckets[i]++
		}
	}
}

// text writes everything in the text format of Prometheus, version 0.0.4.
func (r *registry) text() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b bytes.Buffer
	for _, m := range allMetrics {
		all := r.values[m.name]
		if len(all) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			s := all[key]
			if m.kind != histogram {
				fmt.Fprintf(&b, "%s%s %s\n", m.name, braced(key), decimal(s.value))
				continue
			}
			for i, bound := range buckets {
				fmt.Fprintf(&b, "%s_bucket%s %d\n", m.name, braced(joined(key, `le="`+decimal(bound)+`"`)), s.buckets[i])
			}
			fmt.Fprintf(&b, "%s_bucket%s %d\n", m.name, braced(joined(key, `le="+Inf"`)), s.count)
			fmt.Fprintf(&b, "%s_sum%s %s\n%s_count%s %d\n", m.name, braced(key), decimal(s.value), m.name, braced(key), s.count)
		}
	}
	return b.Bytes()
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func labels(names, values []string) string {
	var all []string
	for i, n := range names {
		all = append(all, n+`="`+escapes.Replace(values[i])+`"`)
	}
	return strings.Join(all, ",")
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "," + b
}

func braced(s string) string {
	if s == "" {
		return ""
	}
	return "{" + s + "}"
}

func decimal(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
