package task

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

func tasksOf(ids ...string) []Task {
	var out []Task
	for _, id := range ids {
		out = append(out, Task{ID: id, Where: "in"})
	}
	return out
}

func idsOf(tasks []Task) []string {
	out := []string{}
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return out
}

func TestSelect(t *testing.T) {
	all := tasksOf("a1", "a2", "b1", "b2", "c")
	all[4].Given = "own/c"
	for _, c := range []struct {
		s       Selection
		want    []string
		problem string
	}{
		{Selection{}, []string{"a1", "a2", "b1", "b2", "c"}, ""},
		{Selection{Select: []string{"c", "a*"}}, []string{"a1", "a2", "c"}, ""},
		{Selection{Select: []string{"own/c"}}, []string{"c"}, ""},
		{Selection{Exclude: []string{"?1", "own/c"}}, []string{"a2", "b2"}, ""},
		{Selection{Select: []string{"a*"}, Exclude: []string{"a1"}}, []string{"a2"}, ""},
		{Selection{Select: []string{"a1", "x", "y*", "["}, Exclude: []string{"z"}}, []string{"a1"},
			`[--select: there is no task "x" --select: no task matches "y*" --select: the glob "[" is malformed --exclude: there is no task "z"]`},
		{Selection{Exclude: []string{"*"}}, []string{}, "[the selection leaves no task, of 5]"},
	} {
		got, problems := Select(all, c.s)
		if !slices.Equal(idsOf(got), c.want) || len(problems) > 0 && fmt.Sprint(problems) != c.problem || len(problems) == 0 && c.problem != "" {
			t.Errorf("%+v: %v, %v", c.s, idsOf(got), problems)
		}
	}
}

// Shards part the tasks: each is in exactly one, wherever it stands and
// whichever others there are.
func TestShardsPartTheTasks(t *testing.T) {
	var all []Task
	for i := range 500 {
		all = append(all, Task{ID: fmt.Sprintf("t%d", i)})
	}
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	for _, n := range []int{1, 2, 3, 7} {
		seen := map[string]int{}
		for i := 1; i <= n; i++ {
			part, _ := Select(all, Selection{Shard: Shard{i, n}})
			for _, k := range part {
				seen[k.ID]++
			}
			other, _ := Select(reversed[:250], Selection{Shard: Shard{i, n}})
			for _, k := range other {
				if !slices.Contains(idsOf(part), k.ID) {
					t.Errorf("%s moved out of shard %d/%d", k.ID, i, n)
				}
			}
			if len(part) < 500/n/2 {
				t.Errorf("shard %d/%d has %d of 500", i, n, len(part))
			}
		}
		for _, k := range all {
			if seen[k.ID] != 1 {
				t.Errorf("%s is in %d of %d shards", k.ID, seen[k.ID], n)
			}
		}
	}
}

func TestShuffleIsOfSeedAndIDsAlone(t *testing.T) {
	all := tasksOf("a", "b", "c", "d", "e", "f", "g")
	one, two := uint64(1), uint64(2)
	first, _ := Select(all, Selection{Shuffle: &one})
	slices.Reverse(all)
	again, _ := Select(all, Selection{Shuffle: &one})
	other, _ := Select(all, Selection{Shuffle: &two})
	if !slices.Equal(idsOf(first), idsOf(again)) {
		t.Errorf("%v, then %v", idsOf(first), idsOf(again))
	}
	if slices.Equal(idsOf(first), idsOf(other)) {
		t.Error("another seed gives the same order")
	}
	// The order is a promise: a resumed batch must find the same one.
	if got := fmt.Sprint(idsOf(first)); got != "[a e b c g d f]" {
		t.Errorf("the order of seed 1 is now %s", got)
	}
}

func TestParseShard(t *testing.T) {
	if s, err := ParseShard("2/5"); err != nil || s != (Shard{2, 5}) {
		t.Error(s, err)
	}
	for _, bad := range []string{"", "1", "0/2", "3/2", "a/b", "-1/2", "1/2/3", "1/999999999"} {
		if _, err := ParseShard(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestCandidates(t *testing.T) {
	p := Places{Repos: "/r", From: "/in", Map: map[string]string{"mapped/x": "../m", "mapped/y": "https://h/y"}}
	for _, c := range []struct {
		places Places
		repo   string
		want   string
	}{
		{p, "own/name", "[/r/own/name /r/own/name.git /r/own__name /r/own__name.git]"},
		{p, "name", "[/r/name /r/name.git /in/name]"},
		{p, "mapped/x", "[/m]"},
		{p, "mapped/y", "[https://h/y]"},
		{p, "https://h/own/name.git", "[/r/own/name /r/own/name.git /r/own__name /r/own__name.git https://h/own/name.git]"},
		{p, "git@h:own/name.git", "[/r/own/name /r/own/name.git /r/own__name /r/own__name.git git@h:own/name.git]"},
		{p, "../../etc", "[/etc]"},
		{p, "/abs/dir/", "[/abs/dir]"},
		{p, "", "[]"},
		{Places{From: "/in"}, "own/name", "[/in/own/name]"},
		{Places{Repo: "/one", Repos: "/r"}, "own/name", "[/one]"},
		{Places{Repo: "/one"}, "", "[/one]"},
	} {
		if got := fmt.Sprint(c.places.Candidates(c.repo)); got != c.want {
			t.Errorf("%q: %s, want %s", c.repo, got, c.want)
		}
	}
}

// world is a World that counts what it is asked.
type world struct {
	repos, images map[string]bool
	commits       map[string]string
	asked         map[string]int
}

func (w *world) ask(q string) { w.asked[q]++ }

func (w *world) Repository(dir string) (bool, error) {
	w.ask("repo " + dir)
	if dir == "/broken" {
		return false, errors.New("permission denied")
	}
	return w.repos[dir], nil
}

func (w *world) Commit(dir, rev string) (string, error) {
	w.ask("commit " + dir + " " + rev)
	return w.commits[dir+" "+rev], nil
}

func (w *world) Image(ref string) (bool, error) { w.ask("image " + ref); return w.images[ref], nil }

func TestResolve(t *testing.T) {
	w := &world{
		repos: map[string]bool{"/r/own__a": true, "/r/own/b.git": true}, images: map[string]bool{"img": true},
		commits: map[string]string{"/r/own__a c1": "c1full", "/r/own__a ": "head"}, asked: map[string]int{},
	}
	tasks := []Task{
		{ID: "1", Repo: "own/a", BaseCommit: "c1", Image: "img", Where: "in:1"},
		{ID: "2", Repo: "own/a", BaseCommit: "c1", Image: "img", Where: "in:2"},
		{ID: "3", Repo: "own/a", Where: "in:3"},
		{ID: "4", Repo: "https://h/x", BaseCommit: "c9", Where: "in:4"},
		{ID: "5", Repo: "own/b", BaseCommit: "c2", Image: "none", Where: "in:5"},
		{ID: "6", Repo: "own/gone", Where: "in:6"},
		{ID: "7", Where: "in:7"},
		{ID: "8", Repo: "/broken", Where: "in:8"},
		{ID: "9", Repo: "own/b", Where: "in:9"},
	}
	got, problems := Resolve(tasks, Places{Repos: "/r"}, w)
	want := []Resolved{{Place{Dir: "/r/own__a"}, "c1full"}, {Place{Dir: "/r/own__a"}, "c1full"}, {Place{Dir: "/r/own__a"}, "head"}, {Place{URL: "https://h/x"}, ""}}
	if !reflect.DeepEqual(got[:4], want) {
		t.Errorf("got %+v", got[:4])
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	wantLines := []string{
		`in:5: 5: the repository "/r/own/b.git" has no commit "c2": fetch it there first`,
		`in:5: 5: there is no image "none", neither here nor in a registry that lets it be pulled: pull or build it first`,
		`in:6: 6: there is no repository "own/gone": looked at "/r/own/gone", "/r/own/gone.git", "/r/own__gone", "/r/own__gone.git"`,
		`in:7: 7: it names no repository: give --repo DIR`,
		`in:8: 8: the repository at "/broken": permission denied`,
		`in:9: 9: the repository "/r/own/b.git" has no commit`,
	}
	if !slices.Equal(lines, wantLines) {
		t.Errorf("got %q", lines)
	}
	for q, n := range w.asked {
		if n != 1 {
			t.Errorf("%s was asked %d times", q, n)
		}
	}
}

func TestReadMap(t *testing.T) {
	got, problems := ReadMap("m", []byte("[repos]\n\"own/a\" = \"/a\"\nb = \"https://h/b\"\n"))
	if len(problems) > 0 || got["own/a"] != "/a" || got["b"] != "https://h/b" {
		t.Error(got, problems)
	}
	for text, want := range map[string]string{
		"[repos]\na = \"ext::x\"\nb = \"\"\n": `[m:2: "a": "ext::x" is no URL that is understood: https, http, ssh, git and file are, and user@host:path m:3: "b": leads nowhere]`,
		"":                                    `[m: it has no [repos]: write "owner/name" = "path or URL"]`,
		"x = 1":                               `[m:1: unknown key "x"]`,
	} {
		if _, problems := ReadMap("m", []byte(text)); fmt.Sprint(problems) != want {
			t.Errorf("%q: %v", text, problems)
		}
	}
}

func TestIsURL(t *testing.T) {
	for s, want := range map[string]bool{
		"https://h/x": true, "ssh://git@h/x": true, "git@h:x": true, "file:///x": true, "http://h/x y": false, "ext::sh": false,
		"ftp://h/x": false, "-oProxyCommand=x@h:y": false, "git@-oProxy:x": false, "ssh://-oProxy/x": false, "own/name": false,
	} {
		if IsURL(s) != want {
			t.Errorf("IsURL(%q) = %v", s, !want)
		}
	}
}
