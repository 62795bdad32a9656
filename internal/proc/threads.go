package proc

import (
	"runtime"
	"sync"
)

// reserveThreads makes n threads that this process keeps: the Go runtime ends a
// process which can start no thread at the moment when it wants one, and a
// program that it supervises may have used up what a container allows.
func reserveThreads(n int) {
	var here, gone sync.WaitGroup
	release := make(chan struct{})
	here.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread()
			here.Done()
			<-release
			runtime.UnlockOSThread() // or the thread would end with it
		})
	}
	here.Wait()
	close(release)
	gone.Wait()
}
