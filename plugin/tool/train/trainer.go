// Package train runs trainers: one-file Python programs with the functions
// train(rows_path, out_dir) and evaluate(checkpoint, rows_path). Each runs in a
// process of its own under the operator's interpreter for training, never in
// the one that tools share.
package train

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/plugin/tool"
	"github.com/bestof-dev/bestof/plugin/tool/kernel"
)

// adapter is a tool that imports a trainer and calls its functions.
//
//go:embed adapter.py
var adapter string

// name of the adapter in its kernel.
const name = "trainer"

// importLimit is of the trainer's import: libraries for training are large.
const importLimit = 10 * time.Minute

// A Trainer is one that runs.
type Trainer struct {
	file tool.File
	k    *kernel.Kernel
}

// Start imports a trainer. python is the interpreter, limit that of one call.
// Close has to be called.
func Start(ctx context.Context, file tool.File, python string, limit time.Duration, start kernel.Starter) (*Trainer, error) {
	given, err := json.Marshal(map[string]any{"source": file.Bytes, "path": file.Path, "name": file.Name})
	if err != nil {
		return nil, err
	}
	k := kernel.New(kernel.Config{
		Python: python, Start: start, CallTimeout: limit, LoadTimeout: importLimit,
		Tools: []kernel.Source{{Name: name, Path: "<trainer>", Bytes: []byte("GIVEN = " + strconv.QuoteToASCII(string(given)) + "\n" + adapter)}},
	})
	loaded, err := k.Load(ctx)
	if err == nil && loaded[0].Skip != "" {
		err = fmt.Errorf("%s", loaded[0].Skip)
	}
	if err != nil {
		k.Close()
		return nil, fmt.Errorf("the trainer %s: %w", file.Name, err)
	}
	return &Trainer{file, k}, nil
}

// Train returns what train(rows, out) did, as JSON.
func (t *Trainer) Train(ctx context.Context, rows, out string) ([]byte, error) {
	return t.call(ctx, "train", rows, out)
}

// Evaluate returns what evaluate(checkpoint, rows) did, as JSON.
func (t *Trainer) Evaluate(ctx context.Context, checkpoint, rows string) ([]byte, error) {
	return t.call(ctx, "evaluate", checkpoint, rows)
}

func (t *Trainer) call(ctx context.Context, function string, args ...string) ([]byte, error) {
	raw, err := json.Marshal(map[string]any{"call": function, "args": args})
	if err != nil {
		return nil, err
	}
	r, err := t.k.Call(ctx, name, raw)
	if err != nil {
		return nil, fmt.Errorf("the trainer %s: %s: %w", t.file.Name, function, err)
	}
	if r.IsError {
		return nil, fmt.Errorf("the trainer %s: %s failed: %s", t.file.Name, function, term.Clean(r.Text, 2000))
	}
	return []byte(r.Text), nil
}

// Close ends its process.
func (t *Trainer) Close() { t.k.Close() }

// Reference is a trainer of ours, to use or to begin with: logistic regression
// in plain Python.
//
//go:embed reference.py
var Reference string
