package verify

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// TestMissing is what is said of a test that the base has and that was not
// reported. No runner reports it.
const TestMissing Status = "missing"

// Results are what single tests did. They travel in the line before Main's last
// one, for people, or with an observation, and are not all where there are many.
type Results struct {
	Failed  []string `json:"failed,omitempty"`
	Missing []string `json:"missing,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	Passed  []string `json:"passed,omitempty"`
	More    int      `json:"more,omitempty"`
}

const (
	maxResultNames = 64 << 10  // bytes of names in a line
	maxObserved    = 2 << 20   // bytes of names in an observation
	maxResultLine  = 256 << 10 // bytes
	resultsPrefix  = "verify: tests: "
)

// results lists what was seen, and which of the expected tests were not, in at
// most so many bytes of names.
func (s Seen) results(base *Expected, limit int) *Results {
	all := map[Status][]string{}
	for _, u := range s.Units {
		for id, status := range u.Results {
			all[status] = append(all[status], u.named(id))
		}
	}
	if base != nil {
		for _, want := range base.Units {
			u := *s.unit(want.Name)
			for _, id := range want.Tests {
				if _, ok := u.Results[id]; !ok {
					all[TestMissing] = append(all[TestMissing], u.named(id))
				}
			}
		}
	}
	r, left := &Results{}, limit
	for _, l := range r.lists() {
		names := all[l.status]
		slices.Sort(names)
		for _, name := range names {
			if left -= len(name); left < 0 {
				r.More++
				continue
			}
			*l.names = append(*l.names, strings.ToValidUTF8(name, "\uFFFD"))
		}
	}
	return r
}

// named tells tests of several units apart.
func (u SeenUnit) named(id string) string {
	if u.Name == "" || strings.Contains(id, u.Name) {
		return id
	}
	return u.Name + ": " + id
}

type resultList struct {
	status Status
	names  *[]string
}

func (r *Results) lists() []resultList {
	return []resultList{{TestFailed, &r.Failed}, {TestMissing, &r.Missing}, {TestSkipped, &r.Skipped}, {TestPassed, &r.Passed}}
}

// ByTest is what is known of each test that is listed.
func (r *Results) ByTest() map[string]Status {
	all := map[string]Status{}
	for _, l := range r.lists() {
		for _, name := range *l.names {
			if _, ok := all[name]; !ok { // the worse one comes first
				all[name] = l.status
			}
		}
	}
	return all
}

// line is r as one line, and "" for nil.
func (r *Results) line() string {
	if r == nil {
		return ""
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and a number
	}
	return resultsPrefix + packed(b) + "\n"
}

// packed is b in few letters.
func packed(b []byte) string {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		panic(err) // a constant level
	}
	_, _ = w.Write(b) // a buffer takes everything
	_ = w.Close()
	return base64.RawStdEncoding.EncodeToString(out.Bytes())
}

// TakeResults reads the results off what Main wrote to stderr, and returns it
// without them. They are nil where there are none, or none that can be read.
func TakeResults(stderr sandbox.Output) (*Results, sandbox.Output) {
	if stderr.Dropped > 0 {
		return nil, stderr
	}
	text := append(bytes.Clone(stderr.Head), stderr.Tail...)
	last := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n') + 1
	from := bytes.LastIndexByte(text[:max(last-1, 0)], '\n') + 1
	line, ok := bytes.CutPrefix(text[from:max(last-1, from)], []byte(resultsPrefix))
	if !ok {
		return nil, stderr
	}
	rest := sandbox.Output{Head: append(text[:from:from], text[last:]...)}
	packed, err := base64.RawStdEncoding.DecodeString(string(line[:min(len(line), maxResultLine)]))
	if err != nil {
		return nil, rest
	}
	r := &Results{}
	d := json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), 1<<20))
	d.DisallowUnknownFields()
	if d.Decode(r) != nil || r.More < 0 {
		return nil, rest
	}
	return r, rest
}
