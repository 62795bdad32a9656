package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

// The labels of a container. Those of Spec.Labels come with them.
const (
	labelOwner = "bestof.pid"       // pid of the orchestrator
	labelStart = "bestof.start"     // and its start time, in clock ticks after boot
	labelBoot  = "bestof.boot"      // boot id of the machine
	labelSpace = "bestof.pidns"     // the PID namespace in which the pid means something
	labelOne   = "bestof.container" // a name nobody else has, for one whose id was never heard
	labelIn    = "bestof."          // all of ours begin so
)

// An owner is whose container it is.
type owner struct {
	proc.Identity
	space string
}

func ownerOf(id proc.Identity) (owner, error) {
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return owner{}, fmt.Errorf("identify the PID namespace: %w", err)
	}
	return owner{id, space}, nil
}

func (o owner) labels() map[string]string {
	return map[string]string{
		labelOwner: strconv.Itoa(o.PID), labelStart: strconv.FormatUint(o.StartTime, 10), labelBoot: o.BootID, labelSpace: o.space,
	}
}

// readOwner reads the labels of a container; ok is false for one that is not
// ours.
func readOwner(labels map[string]string) (o owner, ok bool) {
	pid, err1 := strconv.Atoi(labels[labelOwner])
	start, err2 := strconv.ParseUint(labels[labelStart], 10, 64)
	o = owner{proc.Identity{PID: pid, StartTime: start, BootID: labels[labelBoot]}, labels[labelSpace]}
	return o, err1 == nil && err2 == nil && pid > 0 && o.BootID != "" && o.space != "" && labels[labelOne] != ""
}

// dead decides whether an owner is known to be gone. One of another PID
// namespace of this boot, as of another container that shares the engine,
// cannot be known.
func (o owner) dead(self owner, alive func(proc.Identity) bool) bool {
	switch {
	case o.BootID != self.BootID:
		return true
	case o.space != self.space:
		return false
	}
	return !alive(o.Identity)
}

// A Leftover is a container whose orchestrator is dead.
type Leftover struct {
	ID        string `json:"id"`
	Run       string `json:"run"`
	Candidate string `json:"candidate"`
}

// Reap removes the containers whose orchestrator is dead, found by their
// labels, and returns them; with dryRun it only returns them. Without an
// engine that answers it is a *sandbox.Unavailable.
func Reap(ctx context.Context, environ []string, dryRun bool) ([]Leftover, error) {
	c, err := dial(environ)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	id, err := proc.Self()
	if err != nil {
		return nil, err
	}
	self, err := ownerOf(id)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	all, err := c.ContainerList(limited, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner))})
	if err != nil {
		return nil, silent(ctx, c.DaemonHost(), err)
	}
	left := func(labels map[string]string) bool {
		o, ours := readOwner(labels)
		return ours && o.dead(self, proc.Identity.Alive)
	}
	var gone []Leftover
	for _, one := range all {
		if !left(one.Labels) {
			continue
		}
		if !dryRun {
			if err := remove(ctx, c, one.ID); err != nil {
				return gone, fmt.Errorf("remove the container %.12s: %w", one.ID, err)
			}
		}
		gone = append(gone, Leftover{ID: one.ID, Run: one.Labels["bestof.run"], Candidate: one.Labels["bestof.candidate"]})
	}
	return gone, reapVolumes(ctx, c, left, dryRun)
}

// remove ends and removes a container, whatever became of ctx. One that is
// gone, or that somebody else removes, is no error. An engine that goes away is
// given the time of a restart.
func remove(ctx context.Context, c *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWait)
	defer cancel()
	for tries := restartWait / removeEvery; ; {
		err := c.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err):
			// It is being removed: wait until it is.
			if _, err := c.ContainerInspect(ctx, id); errdefs.IsNotFound(err) {
				return nil
			}
		case answered(err) || tries == 0:
			return err
		default:
			tries--
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(removeEvery):
		}
	}
}

const (
	restartWait = 5 * time.Second
	removeEvery = 20 * time.Millisecond
)

// answered reports whether an error is an engine's answer, rather than the lack
// of one.
func answered(err error) bool {
	return errdefs.IsInternal(err) || errdefs.IsInvalidArgument(err) || errdefs.IsPermissionDenied(err) || errdefs.IsUnavailable(err) ||
		errdefs.IsNotImplemented(err) || errdefs.IsUnauthorized(err)
}

// removeLabelled removes a container whose id was never heard, by its label.
func removeLabelled(ctx context.Context, c *client.Client, one string) error {
	var all []container.Summary
	err := untilAnswered(ctx, func(ctx context.Context) (ok bool, err error) {
		all, err = c.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOne+"="+one))})
		return err == nil, err
	})
	for _, found := range all {
		err = errors.Join(err, remove(ctx, c, found.ID))
	}
	return err
}

// untilAnswered asks an engine again that goes away, for the time of a restart
// and whatever became of ctx.
func untilAnswered(ctx context.Context, ask func(context.Context) (ok bool, err error)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWait)
	defer cancel()
	for tries := restartWait / removeEvery; ; tries-- {
		ok, err := ask(ctx)
		if ok || answered(err) || tries == 0 || ctx.Err() != nil {
			return err
		}
		<-time.After(removeEvery)
	}
}

// withLabels adds what a spec says to an owner's labels; nobody else's prefix.
func withLabels(o owner, spec sandbox.Spec, one string) map[string]string {
	labels := map[string]string{}
	for name, v := range spec.Labels {
		if strings.HasPrefix(name, labelIn) {
			labels[name] = v
		}
	}
	for name, v := range o.labels() {
		labels[name] = v
	}
	labels[labelOne] = one
	return labels
}
