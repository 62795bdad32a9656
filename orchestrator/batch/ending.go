package batch

import (
	"slices"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// The ends of an attempt.
const (
	endJudged         = "judged"
	endInvalid        = "invalid"
	endInterrupted    = "interrupted"
	endInfrastructure = "infrastructure"
)

// An ending is what an attempt's record makes of its task.
type ending struct {
	end    string
	state  string // of the task
	winner int
	reason string
}

// endingOf reads a record. It is pure. An attempt in which a candidate was cut
// off, or could not begin, is not done, unless another candidate had won; and
// what the host failed is nobody's result.
func endingOf(doc record.Document) ending {
	won := doc.Winner != nil
	stopped := doc.Settings.Stop == "first" && won
	any := func(has func(record.Candidate) bool) bool { return slices.ContainsFunc(doc.Candidates, has) }
	has := func(o candidate.Outcome) bool {
		return any(func(c record.Candidate) bool { return c.Outcome == o })
	}
	// A run that ended before the judge could choose says why in Withheld. One
	// whose candidates were all refused, by a batch that drains, did not.
	early := doc.Withheld != "" && !any(func(c record.Candidate) bool {
		return c.Outcome == candidate.Cancelled && c.Detail != record.NotStarted
	})
	switch {
	case doc.Phase != record.Finished:
		return ending{endInterrupted, Pending, 0, doc.Reason}
	case early && !doc.AnyStarted() && (doc.ExitCode == orchestrator.ExitUsage || doc.ExitCode == orchestrator.ExitNoWinner):
		return ending{endInvalid, Invalid, 0, doc.Reason}
	case early && doc.ExitCode == orchestrator.ExitInfrastructure:
		return ending{endInfrastructure, Pending, 0, infrastructureReason(doc)}
	case has(candidate.Cancelled) && !stopped:
		return ending{endInterrupted, Pending, 0, cutReason(doc)}
	case doc.Withheld != "" && slices.Contains([]int{orchestrator.ExitTimedOut, orchestrator.ExitOverBudget, orchestrator.ExitInterrupted}, doc.ExitCode):
		return ending{endInterrupted, Pending, 0, doc.Reason} // between its last candidate and the judge
	case (doc.ExitCode == orchestrator.ExitInfrastructure || has(candidate.Infrastructure)) && !stopped:
		return ending{endInfrastructure, Pending, 0, infrastructureReason(doc)}
	case won:
		return ending{endJudged, Done, *doc.Winner, doc.Reason}
	}
	return ending{endJudged, Done, 0, doc.Reason}
}

// cutReason is why a finished run is not the last one of its task. Of one that has
// a winner its own reason would say why that one won.
func cutReason(doc record.Document) string {
	if doc.Winner == nil {
		return doc.Reason
	}
	for _, c := range doc.Candidates {
		if c.Outcome == candidate.Cancelled && c.Detail == record.NotStarted {
			return candidate.Number(c.Number).ID() + " was not begun"
		}
		if c.Outcome == candidate.Cancelled {
			return candidate.Number(c.Number).ID() + " was not finished: " + c.Detail
		}
	}
	return doc.Reason
}

func infrastructureReason(doc record.Document) string {
	for _, c := range doc.Candidates {
		if c.Outcome == candidate.Infrastructure {
			return candidate.Number(c.Number).ID() + ": " + c.Detail
		}
	}
	return doc.Reason
}

// kept are the candidates of a record that lived to their end: they are never
// run again.
func kept(doc record.Document) []record.Candidate {
	var out []record.Candidate
	for _, c := range doc.Candidates {
		if c.State == candidate.Done && c.Outcome != candidate.Cancelled && c.Outcome != candidate.Infrastructure {
			out = append(out, c)
		}
	}
	return out
}
