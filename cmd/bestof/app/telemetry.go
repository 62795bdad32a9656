package app

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/internal/telemetry"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// logOptions say where structured logs go. Without a format there are none.
type logOptions struct {
	format string
	file   string
}

func (o *logOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.format, "log", "", "write structured logs instead of progress: json | text (default $BESTOF_LOG)")
	f.StringVar(&o.file, "log-file", "", "append them to `FILE` beside the progress (default $BESTOF_LOG_FILE, or standard error)")
}

// structured is the format of logs, "" for none, and their file, "" for standard
// error. A file alone has JSON.
func (a *app) structured() (format, file string) {
	format, file = a.log.format, a.log.file
	if format == "" {
		format = a.getenv("BESTOF_LOG")
	}
	if file == "" {
		file = a.getenv("BESTOF_LOG_FILE")
	}
	if format == "" && file != "" {
		format = "json"
	}
	return format, file
}

// logger is what writes structured logs, nil for nothing, and what closes it. A
// log in a repository would change what candidates are compared with.
func (a *app) logger(repository string) (log *slog.Logger, closer io.Closer, err error) {
	format, file := a.structured()
	if format == "" {
		return nil, io.NopCloser(nil), nil
	}
	if file == "" {
		if log, err = telemetry.Logger(a.Err, format); err != nil {
			return nil, nil, usageError{err}
		}
		return log, io.NopCloser(nil), nil
	}
	if file, err = filepath.Abs(file); err != nil {
		return nil, nil, err
	}
	if repository != "" && within(filepath.Dir(file), repository) {
		return nil, nil, usagef("the log %s is inside of the repository: write it elsewhere", file)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, usagef("open the log: %w", err)
	}
	if log, err = telemetry.Logger(f, format); err != nil {
		return nil, nil, usageError{errors.Join(err, f.Close())}
	}
	return log, f, nil
}

// jobLogger logs what happens to jobs: as was said, or else as text on standard
// error.
func (a *app) jobLogger() (*slog.Logger, io.Closer, error) {
	log, closer, err := a.logger("")
	if err != nil || log != nil && !a.logsInstead() {
		return log, closer, err
	}
	format, _ := a.structured()
	if format == "" {
		format = "text"
	}
	log, err = telemetry.Logger(a.logTo(), format)
	return log, closer, err
}

// forRuns is the environment of runs that somebody else starts and watches: what
// they print is their log, and metrics of a process that ends are nobody's.
func forRuns(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "BESTOF_LOG" || name == "BESTOF_LOG_FILE" || name == "OTEL_METRICS_EXPORTER"
	})
}

// logsInstead reports whether logs take the place of progress.
func (a *app) logsInstead() bool {
	format, file := a.structured()
	return format != "" && file == ""
}

// startTelemetry begins what the environment asks for; nil is nothing.
func (a *app) startTelemetry() *telemetry.Telemetry {
	return telemetry.Start(a.lookup, version(), func(line string) { a.warn("%s", line) })
}

// A watch tells everyone but the person at the terminal what happens.
type watch struct {
	log  *slog.Logger // may be nil
	file io.Closer
	tel  *telemetry.Telemetry
	run  *telemetry.Run
}

// watch begins to tell; repository is the one that is worked on, if it is one.
func (a *app) watch(repository string) (*watch, error) {
	log, file, err := a.logger(repository)
	if err != nil {
		return nil, err
	}
	w := &watch{log: log, file: file, tel: a.startTelemetry()}
	if at := w.tel.Address(); at != "" && log != nil {
		log.Info("metrics are served", "address", at)
	}
	return w, nil
}

// ofRun is where a run publishes its events, next after it.
func (w *watch) ofRun(id string, next func(event.Event)) func(event.Event) {
	w.run = w.tel.Run()
	return func(e event.Event) {
		if w.log != nil {
			telemetry.LogRun(w.log, id, e)
		}
		w.run.Publish(e)
		next(e)
	}
}

// ended takes what a run left in its record.
func (w *watch) ended(doc record.Document) {
	var used []telemetry.Used
	for _, c := range doc.Candidates {
		if u := orchestrator.UsageOf(c.Usage); u.Reported {
			used = append(used, telemetry.Used{Candidate: c.Number, Input: u.Input, Output: u.Output, MicroUSD: u.MicroUSD})
		}
	}
	w.run.End(used)
}

// ofBatch is where a batch publishes its events, next after it.
func (w *watch) ofBatch(next func(progress.Event)) func(progress.Event) {
	b := w.tel.Batch()
	return func(e progress.Event) {
		if w.log != nil {
			telemetry.LogBatch(w.log, e)
		}
		b.Publish(e)
		next(e)
	}
}

// Close sends what is left, for two seconds at most.
func (w *watch) Close() error {
	w.tel.Close()
	return w.file.Close()
}
