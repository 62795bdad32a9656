package task

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"unicode/utf8"
)

// csvColumns are those that a CSV file must have.
var csvColumns = []string{"instance_id", "repo", "base_commit", "problem_statement", "test"}

// readCSV reads comma-separated values with a header. Fields in quotes may
// hold line ends, of which CR LF become LF; an empty field says nothing.
func readCSV(name string, r io.Reader) (Input, []Problem) {
	b := newBuilder(name, official)
	limit := &allowance{r: r}
	in := bufio.NewReaderSize(limit, 64<<10)
	limit.left = MaxRecord
	skipMark(in)
	rows := csv.NewReader(in)
	header, err := rows.Read()
	if err != nil {
		b.rowFault(err)
		if errors.Is(err, io.EOF) {
			b.problems.add(name, "there is no header line: the first line names the columns, %v at least", csvColumns)
		}
		return b.input()
	}
	whole, readable := b.header(header)
	if readable {
		b.rows(rows, limit, header)
	}
	if !whole {
		b.tasks = nil // what no row has would be missed for each
	}
	return b.input()
}

// rows reads what follows the header.
func (b *builder) rows(rows *csv.Reader, limit *allowance, header []string) {
	for {
		limit.left = MaxRecord
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			if b.rowFault(err) {
				continue
			}
			return
		}
		line, _ := rows.FieldPos(0)
		rec := record{line: line}
		valid := true
		for i, cell := range row {
			valid = valid && utf8.ValidString(cell)
			if cell != "" {
				rec.set(header[i], value{text: cell})
			}
		}
		if !valid {
			b.problems.add(at(b.name, line), "the task is not UTF-8")
			continue
		}
		if !b.add(rec) {
			return
		}
	}
}

// header checks the names of the columns. Rows below one that is not whole can be
// read all the same, unless a column has no name of its own or one is missing that
// says what each task must have.
func (b *builder) header(names []string) (whole, readable bool) {
	before := len(b.list)
	for i, n := range names {
		if n == "" || slices.Contains(names[:i], n) {
			b.problems.add(at(b.name, 1), "the column %s has no name of its own", quote(n))
		}
	}
	readable = len(b.list) == before
	for _, c := range csvColumns {
		if !slices.Contains(names, c) {
			b.problems.add(at(b.name, 1), "the column %s is missing in the header", c)
			readable = readable && !slices.Contains(b.words.required, c)
		}
	}
	return len(b.list) == before, readable
}

// rowFault notes what is wrong with a row, and whether reading can go on.
func (b *builder) rowFault(err error) bool {
	var p *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return false
	case errors.As(err, &p) && errors.Is(p.Err, csv.ErrFieldCount):
		b.problems.add(at(b.name, p.StartLine), "the row has not as many fields as the header has columns")
		return true
	case errors.As(err, &p):
		b.problems.add(at(b.name, p.StartLine), "malformed CSV: %v", p.Err)
		// After a stray quote, where the next row begins is a guess.
		return false
	}
	b.problems.add(b.name, "%v", err)
	return false
}

// An allowance is a reader that may give so many bytes, until it gets more
// again. What is read ahead counts, so a record may be a little larger.
type allowance struct {
	r    io.Reader
	left int
}

var errRecordTooLarge = errors.New("a task is larger than 16 MiB")

func (a *allowance) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, errRecordTooLarge
	}
	n, err := a.r.Read(p[:min(len(p), a.left)])
	a.left -= n
	return n, err
}
