package usage

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/sqlitefile"
)

// A Filter says which uses are looked at. Zero values mean all.
type Filter struct {
	Run    string // also groups by candidate
	Server string
	Since  time.Time
}

// A Line is what one tool was used for.
type Line struct {
	Candidate *int   `json:"candidate,omitempty"` // of one run; 0 is the prefetch
	Server    string `json:"server"`
	Tool      string `json:"tool"`
	Calls     int64  `json:"calls"`    // that were made
	Errors    int64  `json:"errors"`   // of those: all that did not end well
	Refused   int64  `json:"refused"`  // that were not made: withheld, unknown, over a limit
	Sent      int64  `json:"sent"`     // bytes
	Received  int64  `json:"received"` // bytes
	MeanMS    int64  `json:"mean_ms"`
	MaxMS     int64  `json:"max_ms"`

	// Outcomes is how often it went how: "ok", "error" (the tool's own), or an
	// mcp.Failure.
	Outcomes map[string]int64 `json:"outcomes"`
}

// refused are the outcomes of calls that were not made.
const refused = `outcome IN ('withheld', 'unknown', 'over-limit')`

// Query sums up the uses in the file at path, those with most calls first.
// Without a file there are none, and none is made.
func Query(ctx context.Context, path string, f Filter) ([]Line, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := open(path, "ro")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer db.Close()
	v, err := sqlitefile.Version(db, schema)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if v == 0 { // made, and nothing written yet
		return nil, nil
	}
	lines, err := query(ctx, db, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lines, nil
}

func query(ctx context.Context, db *sql.DB, f Filter) ([]Line, error) {
	var where []string
	var args []any
	add := func(condition string, arg any) {
		where, args = append(where, condition), append(args, arg)
	}
	candidate := "NULL"
	if f.Run != "" {
		candidate = "candidate"
		add("run = ?", f.Run)
	}
	if f.Server != "" {
		add("server = ?", f.Server)
	}
	if !f.Since.IsZero() {
		add("started >= ?", f.Since.UnixMilli())
	}
	condition := ""
	if len(where) > 0 {
		condition = "WHERE " + strings.Join(where, " AND ")
	}
	rows, err := db.QueryContext(ctx, `
		SELECT who, server, tool,
			SUM(IIF(`+refused+`, 0, n)) AS calls,
			SUM(IIF(`+refused+` OR outcome = 'ok', 0, n)),
			SUM(IIF(`+refused+`, n, 0)),
			SUM(sent), SUM(received),
			CAST(ROUND(COALESCE(SUM(IIF(`+refused+`, NULL, took)) * 1.0 / SUM(IIF(`+refused+`, NULL, n)), 0) / 1000) AS INTEGER),
			CAST(ROUND(MAX(IIF(`+refused+`, 0, longest)) / 1000.0) AS INTEGER),
			json_group_object(outcome, n)
		FROM (
			SELECT `+candidate+` AS who, server, tool, outcome, COUNT(*) AS n,
				SUM(sent) AS sent, SUM(received) AS received, SUM(took) AS took, MAX(took) AS longest
			FROM uses `+condition+`
			GROUP BY who, server, tool, outcome
		)
		GROUP BY who, server, tool
		ORDER BY who, calls DESC, server, tool`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lines []Line
	for rows.Next() {
		var l Line
		var who sql.NullInt64
		var outcomes []byte
		if err := rows.Scan(&who, &l.Server, &l.Tool, &l.Calls, &l.Errors, &l.Refused, &l.Sent, &l.Received, &l.MeanMS, &l.MaxMS, &outcomes); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(outcomes, &l.Outcomes); err != nil {
			return nil, err
		}
		if who.Valid {
			n := int(who.Int64)
			l.Candidate = &n
		}
		lines = append(lines, l)
	}
	return lines, rows.Err()
}
