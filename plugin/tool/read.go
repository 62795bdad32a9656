package tool

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
)

//go:embed reader.py
var reader string

// A Python is the interpreter that reads contracts.
type Python struct {
	Program string   // "" means python3
	Env     []string // where the program is looked up: PATH of it
}

const (
	readerBatch   = 32
	readerFrame   = 4 << 20 // bytes of one frame
	readerSeconds = 5       // of processor time for one file
	readerMemory  = 1 << 30 // address space for one file
)

// A PythonError says that contracts could not be read at all.
type PythonError struct {
	Program string
	Err     error
}

func (e *PythonError) Error() string {
	return fmt.Sprintf("read tools with %s: %v: install Python 3.8 or newer, or name it with [tools] python in $BESTOF_HOME/config.toml", e.Program, e.Err)
}

func (e *PythonError) Unwrap() error { return e.Err }

// Read reads the contract of each file without executing any of it, in an
// isolated Python. What is wrong with a file is in its reading; the error is
// about the interpreter, and a *PythonError. Without files nothing is started.
func (p Python) Read(ctx context.Context, kind Kind, files []File) ([]Reading, error) {
	readings := make([]Reading, 0, len(files))
	for batch := range slices.Chunk(files, readerBatch) {
		frames, err := p.read(ctx, kind, batch)
		if err != nil {
			return nil, err
		}
		for i, f := range batch {
			readings = append(readings, parseFrame(f.Name.File(), kind, frames[i]))
		}
	}
	return readings, nil
}

func (p Python) program() string {
	if p.Program == "" {
		return "python3"
	}
	return p.Program
}

// read starts the reader for a few files; a frame that did not come is nil.
func (p Python) read(ctx context.Context, kind Kind, files []File) ([][]byte, error) {
	sizes := make([]int, len(files))
	for i, f := range files {
		sizes[i] = len(f.Bytes)
	}
	request, err := json.Marshal(map[string]any{
		"kind": kind, "sizes": sizes,
		"limits": map[string]int{
			"source": MaxSource, "description": MaxDescription, "schema": MaxSchema, "depth": maxDepth,
			"seconds": readerSeconds, "memory": readerMemory, "frame": readerFrame,
		},
	})
	if err != nil {
		return nil, err
	}
	stdin := append(request, '\n')
	for _, f := range files {
		stdin = append(stdin, f.Bytes...)
	}
	var env []string
	for _, e := range p.Env {
		if strings.HasPrefix(e, "PATH=") {
			env = []string{e, "LC_ALL=C.UTF-8"}
		}
	}
	res, err := proc.Run(ctx, proc.Command{
		Argv: []string{p.program(), "-I", "-S", "-E", "-c", reader},
		Dir:  "/", Env: env, Stdin: stdin, Head: readerBatch * readerFrame,
		Timeout: 30*time.Second + time.Duration(len(files))*2*readerSeconds*time.Second,
	})
	switch {
	case err != nil:
		return nil, &PythonError{p.program(), err}
	case res.End == proc.Stopped:
		return nil, context.Cause(ctx)
	case res.End == proc.NotRun:
		return nil, &PythonError{p.program(), errors.New(res.Reason)}
	}
	frames, complete := parseFrames(res.Stdout.Head, len(files))
	if !complete && (res.Code != 0 || res.Signal != 0) {
		last := strings.TrimSpace(string(append(res.Stderr.Head, res.Stderr.Tail...)))
		last = last[strings.LastIndex(last, "\n")+1:]
		return nil, &PythonError{p.program(), fmt.Errorf("it ended with status %d: %.300s", res.Code, last)}
	}
	return frames, nil
}

// parseFrames divides what the reader wrote. Frames come in order and each
// once; what follows one that does not is nothing.
func parseFrames(b []byte, files int) (frames [][]byte, complete bool) {
	frames = make([][]byte, files)
	for i := range frames {
		if len(b) < 8 || binary.BigEndian.Uint32(b) != uint32(i) {
			return frames, false
		}
		n := int64(binary.BigEndian.Uint32(b[4:]))
		if n > readerFrame || n > int64(len(b)-8) {
			return frames, false
		}
		frames[i] = b[8 : 8+n]
		b = b[8+n:]
	}
	return frames, len(b) == 0
}

// A frame is what the reader says of one file.
type frame struct {
	Description *string         `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Line        int             `json:"line"` // of the schema
	Field       string          `json:"field"`
	At          int             `json:"at"`
	Refused     string          `json:"refused"`
}

// parseFrame is the reading of a file.
func parseFrame(file string, kind Kind, b []byte) Reading {
	refuse := func(field string, line int, reason string) Reading {
		return Reading{Skip: &Skip{File: file, Field: field, Line: line, Reason: reason}}
	}
	var f frame
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return refuse("", 0, "the reader gave no answer about it")
	}
	if f.Refused != "" {
		return refuse(f.Field, f.At, f.Refused)
	}
	var c Contract
	if f.Description != nil {
		c.Description = *f.Description
	}
	if kind == Trainer {
		return Reading{Contract: c}
	}
	if f.Description == nil || len(f.Schema) == 0 {
		return refuse("", 0, "the reader gave no answer about it")
	}
	c.Schema = bytes.Clone(f.Schema)
	if _, err := CompileSchema(c.Schema); err != nil {
		return refuse("SCHEMA", f.Line, err.Error())
	}
	return Reading{Contract: c}
}
