package serve

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
)

// A Pending adoption waits for a person.
type Pending struct {
	Run       string    `json:"run"`
	Candidate int       `json:"candidate"`
	Branch    string    `json:"branch,omitempty"`
	What      string    `json:"what"`
	Token     string    `json:"token"`
	Until     time.Time `json:"until"`

	tries int
}

// How long a token holds, and how many wrong ones take it back.
const (
	tokenLife = 10 * time.Minute
	maxTries  = 3
)

// confirmations are the adoptions that were asked for. A token is good for one
// adoption, as it was described.
type confirmations struct {
	Options
	mu      sync.Mutex
	waiting map[AdoptRequest]Pending // keyed by the request without its token
}

// ask makes a token for a request, in the place of an earlier one.
func (c *confirmations) ask(r AdoptRequest, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := Pending{Run: r.Run, Candidate: r.Candidate, Branch: r.Branch, What: what, Token: c.Token(), Until: c.Now().Add(tokenLife)}
	c.waiting[r] = p
	fmt.Fprintf(c.Log, "bestof: an agent asks to %s: `bestof mcp confirm` shows the token\n", term.Clean(what, 400))
	c.show()
}

// take uses a token up, or says why it is not good. what is what the adoption
// would do now: it must be what the person saw.
func (c *confirmations) take(r AdoptRequest, what string) error {
	token := r.Token
	r.Token = ""
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.waiting[r]
	if !ok {
		return errors.New("no adoption of this candidate waits for a token: call adopt without one first")
	}
	delete(c.waiting, r)
	defer c.show()
	switch {
	case !c.Now().Before(p.Until):
		return errors.New("the token is too old: call adopt without one for another")
	case p.What != what:
		return errors.New("what would be adopted is no longer what was shown: call adopt without a token for another")
	case subtle.ConstantTimeCompare([]byte(token), []byte(p.Token)) != 1:
		if p.tries++; p.tries < maxTries {
			c.waiting[r] = p
			return fmt.Errorf("that is not the token: %d more tries", maxTries-p.tries)
		}
		return errors.New("that is not the token, for the third time: call adopt without one for another")
	}
	return nil
}

// show hands over what waits, the oldest first. c.mu is held.
func (c *confirmations) show() {
	waiting := []Pending{}
	for r, p := range c.waiting {
		if !c.Now().Before(p.Until) {
			delete(c.waiting, r)
			continue
		}
		waiting = append(waiting, p)
	}
	slices.SortFunc(waiting, func(a, b Pending) int { return a.Until.Compare(b.Until) })
	c.Waiting(waiting)
}
