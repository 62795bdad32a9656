package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
)

// hazards: somebody opens connections and says nothing. Only their own go.
func TestAFloodOfConnectionsHoldsUpNobody(t *testing.T) {
	r := start(t, nil)
	address := strings.TrimSuffix(strings.TrimPrefix(r.access(1).URL, "http://"), "/mcp")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range 300 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if _, _, body := r.send(2, callModern("mcp__docs__search", "{}")); !strings.Contains(body, "found") {
		t.Error(body)
	}
	// The oldest has been hung up on; the newest has not.
	ask := func(c net.Conn) string {
		fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: %s\r\n\r\n", address)
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	if line := ask(open[0]); line != "" {
		t.Errorf("the oldest connection still answers: %q", line)
	}
	if line := ask(open[len(open)-1]); !strings.Contains(line, "401") {
		t.Errorf("the newest connection: %q", line)
	}
}

func TestACandidateHasSoManyConnections(t *testing.T) {
	do, began, release, _ := holding()
	r := start(t, func(c *gateway.Config, up *upstream) { withSlow(do)(c, up); c.Limits.Concurrent = 100 })
	answers := make(chan string, 64)
	for range 64 {
		go func() {
			_, _, body, err := r.try(1, callModern("mcp__s__slow", "{}"))
			answers <- body + fmt.Sprint(err)
		}()
	}
	for range 64 {
		<-began
	}
	if status, _, body := r.send(1, callModern("mcp__docs__search", "{}")); status != http.StatusServiceUnavailable || !strings.Contains(body, "64 connections") {
		t.Errorf("%d %s", status, body)
	}
	if _, _, body := r.send(2, callModern("mcp__docs__search", "{}")); !strings.Contains(body, "found") {
		t.Errorf("the sibling: %s", body)
	}
	close(release)
	for range 64 {
		<-answers
	}
}

// hazards: a candidate asks for much and reads nothing.
func TestASlowReaderHoldsUpNobody(t *testing.T) {
	big := strings.Repeat("x", 8<<20)
	r := start(t, func(c *gateway.Config, up *upstream) {
		withSlow(func(context.Context, mcp.Call) (mcp.Result, error) { return says(big), nil })(c, up)
	})
	a := r.access(1)
	c, err := net.Dial("unix", a.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := callModern("mcp__s__slow", "{}")
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", a.Token.Reveal(), len(p.body))
	for k, v := range p.headers {
		fmt.Fprintf(c, "%s: %s\r\n", k, v)
	}
	fmt.Fprintf(c, "\r\n%s", p.body)
	// Its answer has begun, and it reads no further.
	if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q %v", line, err)
	}
	for _, n := range []int{1, 2} {
		if _, _, body := r.send(n, callModern("mcp__docs__search", "{}")); !strings.Contains(body, "found") {
			t.Errorf("candidate %d: %s", n, body)
		}
	}
}

func TestWhatIsOffered(t *testing.T) {
	yes, no := true, false
	declared := func(name string, safe bool, granted *bool) mcp.Declared {
		return mcp.Declared{Server: mcp.Server{Name: name, CandidateSafe: safe, Granted: granted}, Tools: []mcp.Tool{tool("a"), tool("b")}}
	}
	offers := gateway.Offers([]mcp.Declared{
		declared("good", true, &yes), declared("byhand", true, nil), declared("unsafe", false, &yes), declared("ungranted", true, &no),
		declared("changed", true, &yes), declared("half", true, &yes),
	}, map[mcp.Route]string{{Server: "changed"}: gateway.Changed, {Server: "half", Tool: "b"}: gateway.Changed})
	var got []string
	for _, o := range offers {
		got = append(got, fmt.Sprintf("%s:%s:%s", o.Server, o.Withheld, o.WithheldTools["b"]))
	}
	want := []string{"good::", "byhand::", "unsafe:" + gateway.NotCandidateSafe + ":", "ungranted:" + gateway.NotGranted + ":", "changed:" + gateway.Changed + ":", "half::" + gateway.Changed}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// hazards: reading a message can take many times its size, so that many large
// ones at the same time could take all memory.
func TestLargeMessagesOfACandidateAreReadOneByOne(t *testing.T) {
	r := start(t, nil)
	a := r.access(1)
	request := func(q string) post {
		return callModern("mcp__docs__search", `{"q":"`+q+`","pad":"`+strings.Repeat("x", 100<<10)+`"}`)
	}
	first := request("first")
	c, err := net.Dial("unix", a.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", a.Token.Reveal(), len(first.body))
	for k, v := range first.headers {
		fmt.Fprintf(c, "%s: %s\r\n", k, v)
	}
	fmt.Fprint(c, "\r\n")
	answer := bufio.NewReader(c)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("its body is not read: %q %v", line, err)
	}
	second := make(chan error)
	go func() {
		_, _, body, err := r.try(1, request("second"))
		if err == nil && !strings.Contains(body, "found") {
			err = fmt.Errorf("the second large message: %s", body)
		}
		second <- err
	}()
	// Meanwhile small ones go through, and large ones of the sibling.
	for range 200 {
		if _, _, body := r.send(1, callModern("mcp__docs__search", `{"q":"small"}`)); !strings.Contains(body, "found") {
			t.Fatal(body)
		}
	}
	if _, _, body := r.send(2, request("sibling")); !strings.Contains(body, "found") {
		t.Fatal(body)
	}
	for _, call := range r.up.seen() {
		if strings.Contains(string(call.Arguments), `"second"`) {
			t.Error("the second large message was read beside the first")
		}
	}
	fmt.Fprint(c, first.body)
	if err := <-second; err != nil {
		t.Error(err)
	}
	if line, err := answer.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatalf("after 100 Continue: %q %v", line, err)
	}
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("the first large message: %q %v", line, err)
	}
}
