package worktree

// An edit replaces lines a0 to a1 of the old file by b0 to b1 of the new.
type edit struct{ a0, a1, b0, b1 int }

// diffLines is a shortest way from a to b by whole lines, as a list of edits
// in order that do not touch each other. Where the files have so little in
// common that the shortest way would take too long to find, it is a short one.
func diffLines(a, b [][]byte) []edit {
	number := make(map[string]int)
	ids := func(lines [][]byte) []int {
		out := make([]int, len(lines))
		for i, l := range lines {
			n, ok := number[string(l)]
			if !ok {
				n = len(number)
				number[string(l)] = n
			}
			out[i] = n
		}
		return out
	}
	d := differ{a: ids(a), b: ids(b)}
	d.goneA, d.goneB = make([]bool, len(a)), make([]bool, len(b))
	// A line that the other side lacks is part of every way: it only costs
	// time to let the search find out.
	ia, ib := d.shared(number)
	d.compare(ia, ib)
	return d.edits()
}

type differ struct {
	a, b         []int
	goneA, goneB []bool // the lines that are deleted, and added
	forward      []int  // furthest x by diagonal
	backward     []int
	budget       int
}

// shared marks the lines that only one side has and returns the others.
func (d *differ) shared(number map[string]int) (ia, ib []int) {
	inA, inB := make([]bool, len(number)), make([]bool, len(number))
	for _, n := range d.a {
		inA[n] = true
	}
	for _, n := range d.b {
		inB[n] = true
	}
	for i, n := range d.a {
		if d.goneA[i] = !inB[n]; inB[n] {
			ia = append(ia, i)
		}
	}
	for i, n := range d.b {
		if d.goneB[i] = !inA[n]; inA[n] {
			ib = append(ib, i)
		}
	}
	size := len(ia) + len(ib) + 3
	d.forward, d.backward = make([]int, 2*size), make([]int, 2*size)
	d.budget = 1 << 26
	return ia, ib
}

// compare is Myers's linear-space algorithm over positions ia and ib.
func (d *differ) compare(ia, ib []int) {
	for len(ia) > 0 && len(ib) > 0 && d.a[ia[0]] == d.b[ib[0]] {
		ia, ib = ia[1:], ib[1:]
	}
	for len(ia) > 0 && len(ib) > 0 && d.a[ia[len(ia)-1]] == d.b[ib[len(ib)-1]] {
		ia, ib = ia[:len(ia)-1], ib[:len(ib)-1]
	}
	if len(ia) == 0 || len(ib) == 0 {
		for _, i := range ia {
			d.goneA[i] = true
		}
		for _, i := range ib {
			d.goneB[i] = true
		}
		return
	}
	x, y := d.middle(ia, ib)
	d.compare(ia[:x], ib[:y])
	d.compare(ia[x:], ib[y:])
}

// middle is a point of a shortest way that leaves less to do on both sides.
// Neither the first nor the last lines of ia and ib are equal.
func (d *differ) middle(ia, ib []int) (x, y int) {
	n, m := len(ia), len(ib)
	off := m + 1 // diagonal k = x-y is at k+off
	f, b := d.forward, d.backward
	const far = int(^uint(0) >> 1)
	mid := n - m
	odd := mid%2 != 0
	fmin, fmax, bmin, bmax := 0, 0, mid, mid
	f[off], b[mid+off] = 0, n
	for {
		if fmin > -m {
			fmin--
			f[fmin-1+off] = -1
		} else {
			fmin++
		}
		if fmax < n {
			fmax++
			f[fmax+1+off] = -1
		} else {
			fmax--
		}
		for k := fmax; k >= fmin; k -= 2 {
			x := max(f[k-1+off]+1, f[k+1+off])
			start := x
			for x < n && x-k < m && d.a[ia[x]] == d.b[ib[x-k]] {
				x++
			}
			f[k+off] = x
			d.budget -= x - start + 1
			if odd && bmin <= k && k <= bmax && b[k+off] <= x {
				return x, x - k
			}
		}
		if bmin > -m {
			bmin--
			b[bmin-1+off] = far
		} else {
			bmin++
		}
		if bmax < n {
			bmax++
			b[bmax+1+off] = far
		} else {
			bmax--
		}
		for k := bmax; k >= bmin; k -= 2 {
			x := min(b[k-1+off], b[k+1+off]-1)
			start := x
			for x > 0 && x-k > 0 && d.a[ia[x-1]] == d.b[ib[x-k-1]] {
				x--
			}
			b[k+off] = x
			d.budget -= start - x + 1
			if !odd && fmin <= k && k <= fmax && x <= f[k+off] {
				return x, x - k
			}
		}
		if d.budget < 0 {
			return furthest(f[fmin+off:], fmin, fmax, n, m)
		}
	}
}

// furthest is the point that the forward search came to with the most lines
// behind it: where to cut when time is up.
func furthest(f []int, fmin, fmax, n, m int) (x, y int) {
	best := -1
	for k := fmin; k <= fmax; k += 2 {
		fx := min(f[k-fmin], n)
		fy := fx - k
		if fy > m {
			fx, fy = m+k, m
		}
		if fx >= 0 && fy >= 0 && fx+fy > best {
			best, x, y = fx+fy, fx, fy
		}
	}
	return x, y
}

// edits turns the marks into a list.
func (d *differ) edits() []edit {
	var out []edit
	for i, j := 0, 0; i < len(d.a) || j < len(d.b); {
		if i < len(d.a) && j < len(d.b) && !d.goneA[i] && !d.goneB[j] {
			i, j = i+1, j+1
			continue
		}
		e := edit{a0: i, b0: j}
		for i < len(d.a) && d.goneA[i] {
			i++
		}
		for j < len(d.b) && d.goneB[j] {
			j++
		}
		e.a1, e.b1 = i, j
		out = append(out, e)
	}
	return out
}
