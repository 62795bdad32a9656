package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// An Answer is what a model gets. Printed is what the tool printed on the way;
// it is no part of the result.
type Answer struct {
	Text    string
	Printed string
	IsError bool
}

// A Desk answers the calls that come through the door. What it does not have a
// function for is not among its Actions.
type Desk struct {
	Actions []Action
	Allow   AllowList
	Table   *Table

	// Run calls a tool with arguments that fit its SCHEMA.
	Run func(ctx context.Context, t Tool, args json.RawMessage) (Answer, error)
	// Create writes a proposal.
	Create func(ctx context.Context, name Name, source string) (Written, error)
	// Delete switches a live tool off and says where its file is.
	Delete func(ctx context.Context, name Name) (string, error)
	// IsPending says whether a proposal waits to be approved; it may be nil.
	IsPending func(Name) bool
}

// Call answers one request. What is wrong with it is in the answer; an error is
// the host's: nothing could be answered.
func (d *Desk) Call(ctx context.Context, raw json.RawMessage) (Answer, error) {
	if err := d.Allow.Outer(DoorName); err != nil {
		return refused(err), nil
	}
	c, err := ParseCall(raw, d.Actions)
	if err != nil {
		return refused(err), nil
	}
	switch c.Action {
	case ActionList:
		return Answer{Text: Listing(d.Table.Set())}, nil
	case ActionReload:
		set, err := d.Table.Reload(ctx)
		if err != nil {
			return failed(ctx, err)
		}
		return Answer{Text: "loaded again; new names are in the list from the next turn on\n" + Listing(set)}, nil
	case ActionCreate:
		return d.create(ctx, c)
	case ActionDelete:
		return d.delete(ctx, c)
	}
	return d.resolved(ctx, c)
}

// resolved is what needs a live tool: schema and run.
func (d *Desk) resolved(ctx context.Context, c Call) (Answer, error) {
	t, set, err := d.Table.Resolve(ctx, c.Name)
	var unknown *UnknownError
	if errors.As(err, &unknown) && d.IsPending != nil && d.IsPending(c.Name) {
		err = d.Allow.Inner(c.Name, set, true)
	}
	if err != nil {
		return failed(ctx, err)
	}
	if c.Action == ActionSchema {
		return Answer{Text: t.Description + "\nschema: " + string(t.Schema)}, nil
	}
	return d.run(ctx, t, c.Args)
}

func (d *Desk) run(ctx context.Context, t Tool, args json.RawMessage) (Answer, error) {
	schema, err := CompileSchema(t.Schema)
	if err != nil {
		return refused(fmt.Errorf("%s: SCHEMA: %w", t.Name, err)), nil
	}
	checked, err := schema.Check(args)
	if err != nil {
		return refused(fmt.Errorf("%s: %w", t.Name, err)), nil
	}
	return d.Run(ctx, t, checked)
}

func (d *Desk) create(ctx context.Context, c Call) (Answer, error) {
	w, err := d.Create(ctx, c.Name, c.Source)
	if err != nil {
		return failed(ctx, err)
	}
	verb := "created"
	if w.Updated {
		verb = "updated"
	}
	return Answer{Text: fmt.Sprintf("%s %s (sha256:%s); it is pending and not callable until the operator approves it", verb, w.Tool.Path, w.Tool.SHA256)}, nil
}

func (d *Desk) delete(ctx context.Context, c Call) (Answer, error) {
	kept, err := d.Delete(ctx, c.Name)
	if err != nil {
		return failed(ctx, err)
	}
	return Answer{Text: fmt.Sprintf("%s is switched off and kept in %s; `bestof tool enable %s` brings it back", c.Name, kept, c.Name)}, nil
}

func refused(err error) Answer { return Answer{Text: err.Error(), IsError: true} }

// failed is an answer about err, unless the caller has gone.
func failed(ctx context.Context, err error) (Answer, error) {
	if ctx.Err() != nil {
		return Answer{}, err
	}
	return refused(err), nil
}

// Listing is a set as a model reads it: a line for each file.
func Listing(set Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tools, %d loaded, %d skipped\n", len(set.Tools)+len(set.Skipped), len(set.Tools), len(set.Skipped))
	for _, t := range set.Tools {
		fmt.Fprintf(&b, "%s: %s\n", t.Name, firstLine(t.Description))
	}
	for _, s := range set.Skipped {
		fmt.Fprintf(&b, "skipped %s\n", s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// firstLine is the beginning of a text: its first line that says something.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "") + "…"
	}
	return line
}
