package compare

import (
	"fmt"

	"github.com/bestof-dev/bestof/judge"
)

// Words turns a finding into an English clause that can follow "because". What
// it quotes from the finding is raw text.
func Words(f judge.Finding) string {
	switch f.Cause {
	case judge.CauseNoFlip:
		return "the test did not go from failing to passing"
	case judge.CauseTampered:
		if f.Artifact != "" {
			return fmt.Sprintf("the protected file %s was changed", f.Artifact)
		}
		return "a protected file was changed"
	case judge.CauseBudget:
		if f.Reported != nil {
			return fmt.Sprintf("%s was asked for and %d was measured", quoted(f.Check), *f.Reported)
		}
		return fmt.Sprintf("%s was asked for and does not hold", quoted(f.Check))
	case judge.CauseNoOracle:
		return "nothing says how to check it"
	case judge.CauseTamperUnchecked:
		return "nobody looked whether the protected files were changed"
	case judge.CauseWitnessUnsatisfiable:
		return "the test cannot show it: it passed before the change, or cannot pass at all"
	case judge.CauseFlipUnobservable:
		return "the test could not be observed"
	case judge.CauseUnreadableCheck:
		return fmt.Sprintf("the check %s cannot be read", quoted(f.Check))
	case judge.CauseMeasurementMissing:
		return fmt.Sprintf("what the check %s needs was not measured", quoted(f.Check))
	case judge.CauseUndecidable:
		return "the evidence decides nothing"
	case "":
		return "no reason was recorded"
	default:
		return fmt.Sprintf("of a cause this version does not know: %s", f.Cause)
	}
}

func quoted(check string) string {
	if check == "" {
		return "a value"
	}
	return "“" + check + "”"
}
