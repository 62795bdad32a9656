package view

import "github.com/bestof-dev/bestof/candidate"

// What other pages need to look and speak as these do.

// Style is the style sheet of all pages.
func Style() string { return batchStyles() }

// OutcomeClass is the class of the style sheet for an outcome.
func OutcomeClass(o candidate.Outcome) string { return class(outcomeStyle(o)) }

// Result is how a run stands, with the class of the style sheet for it.
func (s Summary) Result() (words, good string) {
	words, st := result(s)
	return words, class(st)
}
