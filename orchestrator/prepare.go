package orchestrator

import (
	"context"
	"slices"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A Prepared is what the first step of a run made: see Config.Prepare.
type Prepared struct {
	Sandbox sandbox.Sandbox         // in place of Config.Sandbox
	Image   record.Image            // of which its containers are made
	Plugins map[string]record.Image // of plugins that have one of their own, by name
	Close   func()                  // called once nothing of the run works any more; may be nil
}

// prepare gets what the sandbox needs before anything can run in it, once for
// all candidates. The returned function is never nil.
func (t *turn) prepare(ctx context.Context) (func(), *ending) {
	if t.Prepare == nil {
		return func() {}, nil
	}
	t.emit(event.Step{Name: "image", Text: "looking for the image"})
	ready, err := t.Prepare(ctx, func(text string) { t.emit(event.Step{Name: "image", Text: text}) })
	if err != nil {
		if end := interruption(ctx); end != nil {
			return func() {}, end
		}
		return func() {}, ended(ExitInfrastructure, "%v", err)
	}
	t.Sandbox = ready.Sandbox
	t.update(func(d *record.Document) {
		d.Settings.Image, d.Settings.PluginImages = &ready.Image, ready.Plugins
	})
	t.Settings.Image = &ready.Image
	t.emit(event.Step{Name: "image", Done: true, Text: "image: " + ready.Image.Words()})
	if ready.Close == nil {
		return func() {}, nil
	}
	return ready.Close, nil
}

// setupKey is what a base depends on besides its tree: what set it up, and
// where.
func (t *turn) setupKey() []string {
	key := slices.Clone(t.Settings.Setup)
	if len(key) > 0 && t.Settings.Image != nil {
		key = append(key, t.Settings.Image.ID)
	}
	return key
}

// In is another sandbox with the same labels, for a plugin that has one of its
// own.
func (l labelled) In(sb sandbox.Sandbox) sandbox.Sandbox { return labelled{sb, l.labels} }
