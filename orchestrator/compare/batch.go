package compare

import (
	"slices"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A Batch is the tasks of a batch against their candidates.
type Batch struct {
	Directory  string      `json:"directory"`
	Tasks      []BatchTask `json:"tasks"`
	Candidates int         `json:"candidates"` // most that any task had: the columns
	Solved     int         `json:"solved"`     // tasks of which the judge chose a right candidate
	Oracle     int         `json:"oracle"`     // tasks of which any candidate is right
	Judged     int         `json:"judged"`     // tasks that are done
}

// A BatchTask is one row.
type BatchTask struct {
	ID      string      `json:"id"`
	State   string      `json:"state"` // pending | running | done | invalid | failed
	Reason  string      `json:"reason,omitempty"`
	Run     string      `json:"run,omitempty"`   // id of its record, below the batch's directory
	Winner  int         `json:"winner"`          // 0 is none
	Right   []int       `json:"right,omitempty"` // candidates that are met
	Counted int         `json:"counted"`         // candidates that had their chance
	Changes int         `json:"changes"`         // different changes, by the record
	Cells   []BatchCell `json:"candidates,omitempty"`
	Unread  string      `json:"unread,omitempty"` // why its record could not be read
}

// A BatchCell is one candidate of one task.
type BatchCell struct {
	Number  int               `json:"number"`
	Agent   string            `json:"agent"`
	Outcome candidate.Outcome `json:"outcome"`
	Detail  string            `json:"detail,omitempty"`
	Change  int               `json:"change"` // equal numbers are equal changes, but for white space; 0 is none
	Files   int               `json:"files"`
	Added   int               `json:"added"`
	Deleted int               `json:"deleted"`
}

// Solved reports whether the judge chose a right candidate.
func (t BatchTask) Solved() bool { return t.Winner > 0 && slices.Contains(t.Right, t.Winner) }

// Missed reports whether a candidate is right and the judge chose none of
// those.
func (t BatchTask) Missed() bool { return len(t.Right) > 0 && !t.Solved() }

// Fill takes the candidates of a task from its record.
func (t *BatchTask) Fill(doc record.Document) {
	m := Build(doc)
	t.Changes = len(m.Clusters)
	for _, c := range doc.Candidates {
		i := slices.IndexFunc(m.Candidates, func(k Candidate) bool { return k.Number == c.Number })
		k := m.Candidates[i]
		t.Cells = append(t.Cells, BatchCell{
			Number: c.Number, Agent: c.Agent, Outcome: c.Outcome, Detail: c.Detail, Change: k.Cluster + 1, Files: k.Files, Added: k.Added, Deleted: k.Deleted,
		})
		if c.Outcome != "" && c.Outcome != candidate.Cancelled && c.Outcome != candidate.Infrastructure {
			t.Counted++
		}
		if c.Outcome == candidate.Met {
			t.Right = append(t.Right, c.Number)
		}
	}
}

// BuildBatch counts the tasks.
func BuildBatch(directory string, tasks []BatchTask) Batch {
	b := Batch{Directory: directory, Tasks: tasks}
	for _, t := range tasks {
		b.Candidates = max(b.Candidates, len(t.Cells))
		if t.State != "done" {
			continue
		}
		b.Judged++
		if t.Solved() {
			b.Solved++
		}
		if len(t.Right) > 0 {
			b.Oracle++
		}
	}
	return b
}
