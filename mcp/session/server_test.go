package session_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const serveWord = "be-a-server"

// TestMain lets the test binary be a server that behaves as its
// arguments say, or a client that hangs.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == serveWord {
		serve(os.Args[2], os.Args[3:]...)
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == conformWord {
		os.Exit(conform(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "connect-and-hang" {
		connectAndHang(os.Args[2])
	}
	goleak.VerifyTestMain(m)
}

type object = map[string]any

// A faulty is a server whose kind says how it misbehaves. Its tools misbehave
// by their names.
type faulty struct {
	kind string
	args []string
	mu   sync.Mutex
	out  io.Writer

	ids       map[string]chan object // our requests
	cancelled []any
	pages     int
	released  chan struct{}
}

type message struct {
	ID     any            `json:"id"`
	Method string         `json:"method"`
	Params object         `json:"params"`
	Result object         `json:"result"`
	Error  map[string]any `json:"error"`
}

func serve(kind string, args ...string) {
	s := &faulty{kind: kind, args: args, out: os.Stdout, ids: map[string]chan object{}, released: make(chan struct{})}
	switch kind {
	case "exits":
		fmt.Fprintln(os.Stderr, "no \x1b[31mlicense\x1b[0m found")
		os.Exit(3)
	case "stderr":
		line := strings.Repeat("e", 1023) + "\n"
		io.WriteString(os.Stderr, strings.Repeat(line, 1024))
	case "garbage":
		io.WriteString(os.Stdout, "starting…\n\xff\xfe\n[1,2]\n\n{\"jsonrpc\":\n{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n")
	case "flood":
		go func() {
			for {
				s.write(object{"jsonrpc": "2.0", "method": "notifications/message", "params": object{"data": strings.Repeat("x", 4096)}})
				s.write(object{"jsonrpc": "2.0", "id": "p", "method": "ping"})
			}
		}()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "grandchild":
		cmd := exec.Command("sh", "-c", "trap '' TERM HUP; sleep 1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	case "modern", "waits":
		if len(args) == 0 {
			break
		}
		wait, err := time.ParseDuration(args[0])
		if err != nil {
			panic(err)
		}
		<-time.After(wait)
	case "changes": // it is one of the older protocol when its file exists
		if s.kind = "modern"; exists(args[0]) {
			s.kind = "good"
		}
	case "meets": // it waits until four have made a file
		if err := os.WriteFile(filepath.Join(args[0], fmt.Sprint(os.Getpid())), nil, 0o600); err != nil {
			panic(err)
		}
		for files := []string(nil); len(files) < 4; {
			files, _ = filepath.Glob(args[0] + "/*")
		}
	case "once": // it starts only as often as its file has lines
		if !s.spend() {
			fmt.Fprintln(os.Stderr, "no more starts")
			os.Exit(7)
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line, &m) == nil {
			s.take(m)
		}
		if kind == "pauses" && m.Method == "tools/list" {
			if _, err := in.Peek(1000); err == nil {
				os.WriteFile(filepath.Join(args[0], "paused"), nil, 0o600)
				for !exists(filepath.Join(args[0], "go")) {
				}
			}
		}
		if kind == "deaf" && m.Method == "tools/list" {
			if _, err := in.Peek(1); err == nil && in.Buffered() > 1000 {
				select {}
			}
		}
	}
	if kind == "stubborn" {
		select {}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// spend takes a line from the file of the first argument.
func (s *faulty) spend() bool {
	b, err := os.ReadFile(s.args[0])
	if err != nil || len(b) == 0 {
		return false
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	return os.WriteFile(s.args[0], []byte(rest), 0o600) == nil
}

func (s *faulty) write(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Write(append(b, '\n'))
}

func (s *faulty) answer(id any, result object) {
	s.write(object{"jsonrpc": "2.0", "id": id, "result": result})
}

func (s *faulty) refuse(id any, code int, text string) {
	s.write(object{"jsonrpc": "2.0", "id": id, "error": object{"code": code, "message": text}})
}

func (s *faulty) take(m message) {
	switch {
	case m.Method == "":
		s.mu.Lock()
		c := s.ids[fmt.Sprint(m.ID)]
		s.mu.Unlock()
		if c != nil {
			c <- object{"result": m.Result, "error": m.Error}
		}
	case s.kind == "silent":
	case m.Method == "server/discover" && s.kind == "silent-discover":
	case m.Method == "server/discover" && s.kind == "agrees":
		s.answer(m.ID, object{})
	case m.Method == "server/discover" && s.kind == "modern":
		s.answer(m.ID, object{
			"supportedVersions": []string{"2026-07-28"}, "capabilities": object{"tools": object{}}, "resultType": "complete",
			"_meta": object{"io.modelcontextprotocol/serverInfo": object{"name": "faulty", "version": "2"}},
		})
	case m.Method == "initialize" && s.kind != "modern":
		caps := m.Params["capabilities"]
		s.answer(m.ID, object{
			"protocolVersion": "2025-11-25", "capabilities": object{"tools": object{}},
			"serverInfo": object{"name": "faulty", "version": fmt.Sprint(caps)}, "instructions": "be good",
		})
	case m.Method == "tools/list":
		s.list(m)
	case m.Method == "tools/call":
		go s.call(m)
	case m.Method == "notifications/cancelled":
		s.mu.Lock()
		s.cancelled = append(s.cancelled, m.Params["requestId"])
		s.mu.Unlock()
	case m.ID != nil:
		s.refuse(m.ID, -32601, "method not found")
	}
}

func tool(name string, more ...object) object {
	t := object{"name": name, "description": "does " + name, "inputSchema": object{"type": "object"}}
	for _, m := range more {
		for k, v := range m {
			t[k] = v
		}
	}
	return t
}

func (s *faulty) list(m message) {
	switch s.kind {
	case "endless":
		s.pages++
		s.answer(m.ID, object{"tools": []object{}, "nextCursor": fmt.Sprint(s.pages)})
	case "stands":
		s.answer(m.ID, object{"tools": []object{}, "nextCursor": "same"})
	case "huge-cursor":
		s.answer(m.ID, object{"tools": []object{}, "nextCursor": strings.Repeat("x", 1<<20)})
	case "no-list":
		s.answer(m.ID, object{"tools": "none"})
	case "many":
		var tools []object
		for i := range 300 {
			tools = append(tools, tool(fmt.Sprintf("t%03d", i), object{"description": "same"}))
		}
		s.answer(m.ID, object{"tools": append(tools, tool("t000"))})
	default:
		var tools []object
		for _, name := range strings.Fields("echo env pid die hang hang2 late progress asked huge big wrong garbage cancelled release change input nothing twice") {
			tools = append(tools, tool(name))
		}
		tools = append(tools, tool("once", object{"annotations": object{"idempotentHint": true}}), tool("once-only"))
		s.answer(m.ID, object{"tools": tools, "ttlMs": "never"})
	}
}

func text(s string) object { return object{"content": []object{{"type": "text", "text": s}}} }

func (s *faulty) call(m message) {
	name, _ := m.Params["name"].(string)
	args, _ := json.Marshal(m.Params["arguments"])
	switch name {
	case "echo":
		s.answer(m.ID, text(string(args)))
	case "env":
		s.answer(m.ID, text(strings.Join(os.Environ(), "\n")))
	case "pid":
		dir, _ := os.Getwd()
		s.answer(m.ID, text(fmt.Sprint(os.Getpid())+" "+dir))
	case "die":
		fmt.Fprintln(os.Stderr, "dying of tool die, secret hunter2")
		os.Exit(9)
	case "hang", "hang2":
	case "late":
		<-s.released
		s.answer(m.ID, text("at last"))
	case "release":
		close(s.released)
		s.answer(m.ID, text("released"))
	case "progress":
		token := m.Params["_meta"].(object)["progressToken"]
		for i := range 4 {
			s.write(object{"jsonrpc": "2.0", "method": "notifications/progress", "params": object{"progressToken": token, "progress": i, "total": 4, "message": string(args)}})
			s.write(object{"jsonrpc": "2.0", "method": "notifications/progress", "params": object{"progressToken": "someone else's", "progress": 99}})
		}
		s.answer(m.ID, text("done"))
		s.write(object{"jsonrpc": "2.0", "method": "notifications/progress", "params": object{"progressToken": token, "progress": 100}})
	case "asked":
		s.answer(m.ID, text(s.ask(m.ID)))
	case "huge":
		s.write(object{"jsonrpc": "2.0", "id": m.ID, "result": text(`{"jsonrpc":"2.0","id":` + strings.Repeat("h", 20<<20))})
	case "big":
		s.answer(m.ID, text(strings.Repeat("ä", 150_000)))
	case "wrong":
		s.answer(9999, text("not for you"))
		s.answer("x", text("not for you"))
		s.answer(nil, text("not for you"))
		s.answer(fmt.Sprint(m.ID), text("for you, as text"))
	case "garbage":
		s.mu.Lock()
		io.WriteString(s.out, "console.log debugging\n\x00\xff{{{\n")
		s.mu.Unlock()
		s.answer(m.ID, text("after garbage"))
	case "cancelled":
		s.mu.Lock()
		n := len(s.cancelled)
		s.mu.Unlock()
		s.answer(m.ID, text(fmt.Sprint(n)))
	case "change":
		s.write(object{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
		s.answer(m.ID, text("changed"))
	case "input":
		s.answer(m.ID, object{"resultType": "input_required", "inputRequests": object{}})
	case "nothing":
		s.write(object{"jsonrpc": "2.0", "id": m.ID})
	case "twice":
		s.answer(m.ID, text("one"))
		s.answer(m.ID, text("two"))
	case "once", "once-only":
		// It dies after having had an effect, the first time.
		path := filepath.Join(s.args[0], "effects")
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			panic(err)
		}
		io.WriteString(f, "x")
		if fi, _ := f.Stat(); fi.Size() == 1 {
			os.Exit(9)
		}
		s.answer(m.ID, text("done"))
	default:
		s.refuse(m.ID, -32602, "no \x1b[2Jsuch tool")
	}
}

// ask makes requests of the client, one with the id of the call that is under
// way, and returns what the client answered.
func (s *faulty) ask(id any) string {
	var said []string
	for _, method := range []string{"ping", "sampling/createMessage", "elicitation/create", "roots/list"} {
		c := make(chan object, 1)
		s.mu.Lock()
		s.ids[fmt.Sprint(id)] = c
		s.mu.Unlock()
		s.write(object{"jsonrpc": "2.0", "id": id, "method": method, "params": object{}})
		a := <-c
		if e, ok := a["error"].(map[string]any); ok && e != nil {
			said = append(said, fmt.Sprintf("%s: %v", method, e["code"]))
		} else {
			said = append(said, fmt.Sprintf("%s: %v", method, a["result"]))
		}
	}
	return strings.Join(said, ", ")
}
