package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/plugin/tool/kernel"
)

func TestMain(m *testing.M) {
	if to := os.Getenv("KERNEL_HOLD"); to != "" {
		os.Exit(hold(to))
	}
	goleak.VerifyTestMain(m, // an engine's client keeps its connections
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// file is a tool whose body follows the two names.
func file(name, body string) kernel.Source {
	return kernel.Source{Name: name, Path: "/tools/" + name + ".py", Bytes: []byte("DESCRIPTION = 'd'\nSCHEMA = {'type': 'object'}\n" + body)}
}

func onHost(t testing.TB) kernel.Starter {
	t.Helper()
	return kernel.Host([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "SECRET=x"}, t.TempDir())
}

// python is the interpreter itself: what is found by name may be a wrapper that
// adds to the environment.
var python = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
})

func open(t testing.TB, c kernel.Config, tools ...kernel.Source) *kernel.Kernel {
	t.Helper()
	c.Tools = tools
	if c.Python == "" {
		c.Python = python()
	}
	if c.Start == nil {
		c.Start = onHost(t)
	}
	k := kernel.New(c)
	t.Cleanup(k.Close)
	return k
}

func skips(t *testing.T, k *kernel.Kernel) map[string]string {
	t.Helper()
	all, err := k.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, l := range all {
		m[l.Name] = l.Skip
	}
	return m
}

func call(t testing.TB, k *kernel.Kernel, name, args string) kernel.Result {
	t.Helper()
	r, err := k.Call(t.Context(), name, json.RawMessage(args))
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return r
}

func wantText(t *testing.T, r kernel.Result, text string) {
	t.Helper()
	if r.IsError || r.Text != text {
		t.Errorf("got %+v, want the text %q", r, text)
	}
}

func TestCall(t *testing.T) {
	k := open(t, kernel.Config{},
		file("count", "n = 0\ndef run(args):\n    global n\n    n += 1\n    print('counted', args)\n    return n"),
		file("echo", "def run(args):\n    return args['v']"),
		file("fails", "def deep(n):\n    if n: deep(n - 1)\n    raise ValueError('no: ' + 'x' * 100)\ndef run(args):\n    print('before')\n    deep(50)"),
		file("peek", "import os\ndef run(args):\n    import weather_like\n    return [sorted(os.environ), os.getcwd(), weather_like.__name__]"),
		file("weather_like", "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: 'int'\ndef run(args):\n    return str(C(1))"),
	)
	for name, skip := range skips(t, k) {
		if skip != "" {
			t.Errorf("%s is skipped: %s", name, skip)
		}
	}
	for n := range 3 {
		r := call(t, k, "count", `{"a": 1}`)
		wantText(t, r, fmt.Sprint(n+1)) // state stays
		if r.Printed != "counted {'a': 1}\n" {
			t.Errorf("printed %q", r.Printed)
		}
	}
	for args, want := range map[string]string{
		`{"v": "as it is: é\n\"\u0000"}`:     "as it is: é\n\"\x00",
		`{"v": {"b": [1, 2.5, null, true]}}`: `{"b": [1, 2.5, null, true]}`,
		`{"v": null}`:                        "null",
		`{"v": ""}`:                          "",
	} {
		wantText(t, call(t, k, "echo", args), want)
	}
	r := call(t, k, "fails", `{}`)
	if !r.IsError || r.Printed != "before\n" || !strings.HasSuffix(r.Text, "ValueError: no: "+strings.Repeat("x", 100)) ||
		!strings.Contains(r.Text, `File "/tools/fails.py", line 5, in deep`) || strings.Count(r.Text, "\n") > 20 {
		t.Errorf("got %+v", r)
	}
	wantText(t, call(t, k, "count", `{}`), "4") // and the kernel lives
	wantText(t, call(t, k, "weather_like", `{}`), "C(a=1)")
	if r := call(t, k, "peek", `{}`); r.IsError || strings.Contains(r.Text, "SECRET") || !strings.Contains(r.Text, `["HOME", "LANG", "PATH"]`) || !strings.Contains(r.Text, `"weather_like"`) {
		t.Errorf("got %+v", r)
	}
	if _, err := k.Call(t.Context(), "nothing", json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), `no tool "nothing"`) {
		t.Errorf("got %v", err)
	}
}

const runs = "\ndef run(args):\n    return 'ran'\n"

// Whatever a file does while it is imported costs that file alone.
func TestImportCostsOneFile(t *testing.T) {
	bad := map[string]struct{ body, skip string }{
		"b_syntax":    {"def run(:", "SyntaxError"},
		"b_raise":     {"raise ValueError('boom')", "ValueError: boom"},
		"b_exit":      {"import sys\nsys.exit(3)", "SystemExit"},
		"b_interrupt": {"raise KeyboardInterrupt", "KeyboardInterrupt"},
		"b_base":      {"class B(BaseException):\n    def __str__(self): raise self\nraise B()", "fails when it is imported"},
		"b_prints":    {"print('hello')" + runs, "prints while it is imported: hello"},
		"b_prints_c":  {"import os\nos.system('echo from a child')" + runs, "prints while it is imported: from a child"},
		"b_flood":     {"import sys\nsys.stdout.write('x' * (16 << 20))" + runs, "prints while it is imported: xxx"},
		"b_set":       {"SCHEMA = {'enum': {1, 2}}" + runs, "SCHEMA is not JSON"},
		"b_nan":       {"SCHEMA = {'x': float('nan')}" + runs, "SCHEMA is not JSON"},
		"b_list":      {"SCHEMA = []" + runs, "SCHEMA must be a dict"},
		"b_huge":      {"DESCRIPTION = 'x' * (1 << 20)" + runs, "DESCRIPTION is longer than"},
		"b_bytes":     {"DESCRIPTION = b''" + runs, "DESCRIPTION must be a str"},
		"b_norun":     {"x = 1", "has no run"},
		"b_run":       {"run = 3", "run must be a function"},
		"b_fork":      {"import os\nif os.fork() == 0:\n    pass" + runs, "may not fork"},
		"b_hardexit":  {"import os\nos._exit(9)", "exited with status 9"},
		"b_kill":      {"import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "died of signal 9"},
		"b_close":     {"import os\nos.closerange(3, 65536)" + runs, "lost its private descriptor"},
		"b_garbage":   {"import os\nfor fd in range(90, 200):\n    try: os.write(fd, b'\\xff' * 64)\n    except OSError: pass" + runs, "kernel"},
		"b_hang":      {"while True: pass", "did not end within"},
	}
	var tools []kernel.Source
	for name, b := range bad {
		tools = append(tools, file(name, b.body))
	}
	tools = append(tools, file("a_good", runs), file("z_good", runs),
		file("z_closes_streams", "import os, sys\nos.close(1)\nsys.stdout.close()"+runs),
		file("z_thread", "import threading, time\nthreading.Thread(target=lambda: time.sleep(3600)).start()"+runs))
	k := open(t, kernel.Config{LoadTimeout: 2 * time.Second}, tools...)
	got := skips(t, k)
	for name, b := range bad {
		if !strings.Contains(got[name], b.skip) {
			t.Errorf("%s is skipped with %q, want %q", name, got[name], b.skip)
		}
		if r := call(t, k, name, `{}`); !r.IsError || !strings.Contains(r.Text, "not loaded") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for _, name := range []string{"a_good", "z_good", "z_closes_streams", "z_thread"} {
		if got[name] != "" {
			t.Errorf("%s is skipped: %s", name, got[name])
		}
		wantText(t, call(t, k, name, `{}`), "ran")
	}
}

// Whatever a call does costs that call alone: the next finds the registry whole.
func TestCallCostsOneCall(t *testing.T) {
	for name, c := range map[string]struct {
		body, text string // of the error; "" for none
		keeps      bool   // the kernel lives
	}{
		"exit":      {"import sys; sys.exit(1)", "SystemExit: 1", true},
		"interrupt": {"raise KeyboardInterrupt", "KeyboardInterrupt", true},
		"generator": {"raise GeneratorExit", "GeneratorExit", true},
		"recursion": {"f = lambda: f()\n    f()", "RecursionError", true},
		"hostile":   {"class E(BaseException):\n        def __str__(self): raise self\n    raise E()", "E", true},
		"not json":  {"return {1, 2}", "not JSON serializable", true},
		"nan":       {"return float('nan')", "JSON compliant", true},
		"own child": {"import os\n    if os.fork() == 0: return 'child'\n    return 'ok'", "", true},
		"streams":   {"import os, sys\n    sys.stdout.close(); sys.stderr = None; os.close(1); os.close(2)\n    return 'ok'", "", true},
		"thread":    {"import threading, time\n    threading.Thread(target=lambda: time.sleep(3600)).start()\n    return 'ok'", "", true},
		"flood":     {"import os\n    for _ in range(400): os.write(1, b'x' * 65536)\n    return 'ok'", "", true},
		"patches":   {"import json, os\n    json.dumps = json.loads = os.read = os.write = None\n    return 'ok'", "", true},
		"alarm":     {"import signal, time\n    signal.alarm(1)\n    time.sleep(60)", "died of signal 14", false},
		"hard exit": {"import os; os._exit(5)", "exited with status 5", false},
		"crash":     {"import ctypes; ctypes.string_at(0)", "died of signal 11", false},
		"closes":    {"import os\n    os.closerange(3, 65536)\n    return 'ok'", "lost its private descriptor", false},
		"replaces":  {"import os\n    os.closerange(3, 65536)\n    for _ in range(200): os.open('/dev/null', os.O_RDWR)\n    return 'ok'", "lost its private descriptor", false},
		"forges":    {"import os, struct\n    m = b'{\"id\": 99, \"text\": \"forged\"}'\n    for fd in range(100, 110):\n        try: os.write(fd, struct.pack('>I', len(m)) + m)\n        except OSError: pass\n    return 'ok'", "broke the rules", false},
		"long":      {"import os\n    for fd in range(100, 110):\n        try: os.write(fd, b'\\xff\\xff\\xff\\xff')\n        except OSError: pass\n    return 'ok'", "broke the rules", false},
	} {
		t.Run(name, func(t *testing.T) {
			k := open(t, kernel.Config{CallTimeout: time.Minute}, file("victim", "n = 0\ndef run(args):\n    global n\n    n += 1\n    print('mine')\n    return n"), file("does", "def run(args):\n    "+c.body))
			wantText(t, call(t, k, "victim", `{}`), "1")
			r := call(t, k, "does", `{}`)
			if c.text == "" {
				wantText(t, r, "ok")
			} else if !r.IsError || !strings.Contains(r.Text, c.text) {
				t.Errorf("got %+v, want an error with %q", r, c.text)
			}
			if len(r.Printed) > 64<<10+100 {
				t.Errorf("kept %d bytes of what it printed", len(r.Printed))
			}
			next := call(t, k, "victim", `{}`)
			wantText(t, next, map[bool]string{true: "2", false: "1"}[c.keeps])
			if next.Printed != "mine\n" {
				t.Errorf("printed %q", next.Printed)
			}
		})
	}
}

func TestReload(t *testing.T) {
	k := open(t, kernel.Config{}, file("one", "v = 1\ndef run(args):\n    return v"), file("gone", runs))
	skips(t, k)
	wantText(t, call(t, k, "one", `{}`), "1")
	loaded, err := k.Reload(t.Context(), []kernel.Source{
		file("one", "v = 2\ndef run(args):\n    import sys\n    return [v, sys.modules['one'].v, 'gone' in sys.modules]"), file("two", "import os\nos._exit(1)")})
	if err != nil || loaded[0].Skip != "" || loaded[1].Skip == "" {
		t.Fatal(loaded, err)
	}
	wantText(t, call(t, k, "one", `{}`), "[2, 2, false]")
	if _, err := k.Call(t.Context(), "gone", nil); err == nil {
		t.Error("a tool that is gone can be called")
	}
}

// A load that fails as a whole leaves what was there.
func TestFailedReloadChangesNothing(t *testing.T) {
	k := open(t, kernel.Config{}, file("one", "n = 0\ndef run(args):\n    global n\n    n += 1\n    return n"))
	wantText(t, call(t, k, "one", `{}`), "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Reload(ctx, []kernel.Source{file("two", runs)}); err == nil {
		t.Fatal("no error")
	}
	wantText(t, call(t, k, "one", `{}`), "2")
}

// A tool named as a module of Python's does not stand in its way.
func TestToolsDoNotShadowModules(t *testing.T) {
	k := open(t, kernel.Config{}, file("json", runs), file("colorsys", runs),
		file("user", "def run(args):\n    import json, colorsys\n    return [json.dumps(1), colorsys.rgb_to_hsv(0, 0, 0)]"))
	wantText(t, call(t, k, "user", `{}`), `["1", [0.0, 0.0, 0]]`)
	wantText(t, call(t, k, "json", `{}`), "ran")
}

func TestNoToolsNoKernel(t *testing.T) {
	k := open(t, kernel.Config{Start: func(context.Context, string) (kernel.Process, error) {
		t.Error("a kernel was started")
		return nil, os.ErrInvalid
	}})
	if loaded, err := k.Load(t.Context()); err != nil || len(loaded) != 0 {
		t.Error(loaded, err)
	}
}

func TestNoPython(t *testing.T) {
	for python, want := range map[string]string{
		"no-such-python": "no-such-python is not on the PATH", "/bin/false": "/bin/false exited with status 1",
	} {
		k := open(t, kernel.Config{Python: python}, file("one", runs))
		if _, err := k.Load(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestBytesThatWereNotApproved(t *testing.T) {
	f := file("one", runs)
	f.SHA256 = strings.Repeat("0", 64)
	if got := skips(t, open(t, kernel.Config{}, f)); !strings.Contains(got["one"], "not those that were approved") {
		t.Error(got)
	}
}

// IPython is used when it is there, without its history; a stand-in shows how
// it was configured.
func TestIPython(t *testing.T) {
	venv := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command(python(), "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	site, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages"))
	if err != nil || len(site) != 1 {
		t.Fatal(site, err)
	}
	for name, text := range map[string]string{
		"IPython/__init__.py": "", "IPython/core/__init__.py": "", "traitlets/__init__.py": "",
		"traitlets/config.py": "class Config(dict):\n    def __getattr__(self, n):\n        return self.setdefault(n, Config())\n    __setattr__ = dict.__setitem__\n",
		"IPython/core/interactiveshell.py": "print('noise')\nclass InteractiveShell:\n    @classmethod\n    def instance(cls, config):\n" +
			"        cls.it = cls(); cls.it.config = config; cls.it.user_ns = {}\n        return cls.it\n",
	} {
		path := filepath.Join(site[0], name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := open(t, kernel.Config{Python: filepath.Join(venv, "bin", "python3")},
		file("shell", "from IPython.core.interactiveshell import InteractiveShell as S\ndef run(args):\n    return [S.it.config['HistoryManager'], sorted(S.it.user_ns)]"))
	wantText(t, call(t, k, "shell", `{}`), `[{"enabled": false, "hist_file": ":memory:"}, ["shell"]]`)
}
