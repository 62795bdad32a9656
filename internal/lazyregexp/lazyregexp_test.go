package lazyregexp

import (
	"sync"
	"testing"
)

func TestCompiledOnceAtFirstUse(t *testing.T) {
	New(`(`) // nobody uses it
	form := New(`^a+$`)
	first := form()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if form() != first || !form().MatchString("aa") || form().MatchString("ab") {
				t.Error("another expression")
			}
		})
	}
	all.Wait()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(`(`)()
}
