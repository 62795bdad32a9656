package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/orchestrator/batch/report"
)

// The chart's frame, in the units of its viewBox.
const (
	chartLeft, chartRight = 48.0, 620.0
	chartTop, chartBottom = 12.0, 244.0
	maxTicks              = 16
)

type batchChart struct {
	Title string
	Grid  []chartMark
	Ticks []chartMark
	Lines []chartLine
}

type chartMark struct{ At, Text, Label string }

type chartLine struct {
	Class, Points, Band string
	Dots                []chartDot
}

type chartDot struct{ X, Y string }

// Chart draws the curves; it is nil when there is no more than one point.
func (p *batchPage) Chart() *batchChart {
	n := len(p.r.PassK)
	if n < 2 {
		return nil
	}
	x := func(k int) float64 { return chartLeft + (chartRight-chartLeft)*float64(k-1)/float64(n-1) }
	c := &batchChart{Title: fmt.Sprintf("Share of tasks with a right candidate, and with a right choice, for 1 to %d candidates", n)}
	for share := 0; share <= 100; share += 25 {
		y := chartY(float64(share) / 100)
		c.Grid = append(c.Grid, chartMark{chartUnit(y), chartUnit(y + 4), strconv.Itoa(share) + " %"})
	}
	step := (n + maxTicks - 1) / maxTicks
	for k := 1; k <= n; k += step {
		c.Ticks = append(c.Ticks, chartMark{At: chartUnit(x(k)), Label: strconv.Itoa(k)})
	}
	for _, l := range []struct {
		class  string
		points []report.Point
	}{{"pass", p.r.PassK}, {"best", p.r.BestOfK}} {
		if line := chartCurve(l.class, l.points, x); line.Points != "" {
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

func chartCurve(class string, points []report.Point, x func(int) float64) chartLine {
	line := chartLine{Class: class}
	var middle, upper, lower []string
	for _, p := range points {
		if p.Value == nil {
			continue
		}
		at := chartUnit(x(p.K))
		y := chartUnit(chartY(*p.Value))
		middle = append(middle, at+","+y)
		line.Dots = append(line.Dots, chartDot{at, y})
		if p.Low != nil && p.High != nil {
			upper = append(upper, at+","+chartUnit(chartY(*p.High)))
			lower = append(lower, at+","+chartUnit(chartY(*p.Low)))
		}
	}
	line.Points = strings.Join(middle, " ")
	if len(upper) > 1 {
		slices.Reverse(lower)
		line.Band = strings.Join(append(upper, lower...), " ")
	}
	return line
}

func chartY(share float64) float64 {
	return chartBottom - (chartBottom-chartTop)*min(1, max(0, share))
}

func chartUnit(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
