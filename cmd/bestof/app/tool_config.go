package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/plugin/tool"
)

// toolSettings is [tools] of config.toml. It counts only in the operator's file.
type toolSettings struct {
	Allow         []string `toml:"allow"` // replaces the built-in list whole; nil is the built-in one
	Max           *int     `toml:"max"`   // tools that may be live; 0 is no cap
	Python        *string  `toml:"python"`
	TrainPython   *string  `toml:"train_python"`   // without it nothing is trained
	CandidateSafe []string `toml:"candidate_safe"` // name@sha256:…
	Advice        *bool    `toml:"advice"`         // a promoted model may break ties in every run
}

// said reports whether there is anything in it.
func (s toolSettings) said() bool {
	return s.Allow != nil || s.Max != nil || s.Python != nil || s.TrainPython != nil || s.CandidateSafe != nil || s.Advice != nil
}

// advice reports whether every run asks a promoted model.
func (s toolSettings) advice() bool { return s.Advice != nil && *s.Advice }

// checkTools refuses values that could not be followed, with their line.
func checkTools(shown string, data []byte, s toolSettings) error {
	at, problem := "", ""
	switch _, err := tool.ParsePins(s.CandidateSafe); {
	case err != nil:
		at, problem = "candidate_safe", err.Error()
	case s.Max != nil && *s.Max < 0:
		at, problem = "max", "write how many tools may be live, or 0 for no cap"
	case !interpreter(s.Python):
		at, problem = "python", "write the absolute path of an interpreter, or a name that is looked up in PATH"
	case !interpreter(s.TrainPython):
		at, problem = "train_python", "write the absolute path of an interpreter, or a name that is looked up in PATH"
	default:
		return nil
	}
	return &stricttoml.Error{Name: shown, Line: stricttoml.Locate(data).Line("tools", at), Problem: "[tools] " + at + ": " + problem}
}

func interpreter(s *string) bool {
	return s == nil || *s != "" && (filepath.IsAbs(*s) || !strings.ContainsAny(*s, "/\x00"))
}

// A toolbox is the operator's one-file tools with what the configuration says
// about them.
type toolbox struct {
	*tool.Zones
	home     string
	settings toolSettings
	allow    tool.AllowList
	pins     []tool.Pin // candidate_safe
}

// python is the interpreter of tools.
func (s toolSettings) python() string {
	if s.Python == nil {
		return ""
	}
	return *s.Python
}

// toolbox opens the zones of tools, or those of trainers.
func (a *app) toolbox(kind tool.Kind) (toolbox, error) {
	home, err := a.home()
	if err != nil {
		return toolbox{}, err
	}
	cfg, err := readConfig(home, "config.toml", filepath.Join(home, "config.toml"))
	if err != nil {
		return toolbox{}, err
	}
	b := toolbox{home: home, settings: cfg.Tools, allow: tool.NewAllowList(cfg.Tools.Allow, tool.Natives())}
	if b.pins, err = tool.ParsePins(cfg.Tools.CandidateSafe); err != nil {
		return b, usageError{err}
	}
	s := tool.Settings{Python: tool.Python{Program: cfg.Tools.python(), Env: a.Environ}, Natives: tool.Natives()}
	if kind == tool.Trainer {
		b.Zones, err = tool.OpenTrainers(home, s)
	} else {
		if cfg.Tools.Max != nil {
			s.Max = *cfg.Tools.Max
		}
		b.Zones, err = tool.Open(home, s)
	}
	if err != nil {
		return b, usageError{err}
	}
	return b, nil
}

// toolError gives an error about tools its exit status.
func toolError(ctx context.Context, err error) error {
	var (
		status    statusError
		usage     usageError
		collision *tool.CollisionError
		denied    *tool.NotAllowedError
		refusal   *tool.Refusal
		unknown   *tool.UnknownError
		python    *tool.PythonError
	)
	switch {
	case err == nil, ctx.Err() != nil, errors.As(err, &status), errors.As(err, &usage):
		return err
	case errors.As(err, &collision), errors.As(err, &denied):
		return statusError{orchestrator.ExitRefused, err}
	case errors.As(err, &refusal), errors.As(err, &unknown):
		return usageError{err}
	case errors.As(err, &python):
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("one-file tools: %w", err)}
}
