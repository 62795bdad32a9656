package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/login"
	mcpsession "github.com/bestof-dev/bestof/mcp/session"
	"github.com/bestof-dev/bestof/orchestrator"
)

type mcpLoginOptions struct {
	clientID, clientSecret string
	scopes                 []string
	port                   int
	noBrowser              bool
	timeout                time.Duration
}

func (o *mcpLoginOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.clientID, "client-id", "", "use the client `ID` that you registered at the authorization server")
	f.StringVar(&o.clientSecret, "client-secret", "", "its secret: from the variable `NAME`, or else from the terminal or a line of stdin")
	f.StringArrayVar(&o.scopes, "ask", nil, "ask for `SCOPE` instead of what the server asks for")
	f.IntVar(&o.port, "port", 0, "wait for the browser at `PORT` of 127.0.0.1 (default: any)")
	f.BoolVar(&o.noBrowser, "no-browser", false, "open no browser; the address that one ends at can be pasted")
	f.DurationVar(&o.timeout, "timeout", login.Timeout, "give up after this `TIME`")
}

// mcpTokens gives sessions the tokens of the operator's logins.
func (a *app) mcpTokens() mcpsession.Tokens {
	home, err := a.home()
	if err != nil {
		return nil
	}
	source := login.NewSource(login.NewStore(home), time.Now)
	source.Notice = func(line string) { a.warn("%s", line) }
	return source
}

func (a *app) mcpLoginCommand() *cobra.Command {
	var o mcpLoginOptions
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to an MCP server that wants it (OAuth)",
		Long: `Shows the address at which you log in, opens it in a browser if this is a
terminal, and waits for the browser to come back to 127.0.0.1. On a machine
without a browser use --no-browser, open the address elsewhere, and paste the
address at which that browser ends.

The tokens are kept in $BESTOF_HOME/mcp/tokens, readable by you alone. They are
sent to the address that the server has now and to no other: after a change of
its url you log in again. Candidates never see them. For a server of a repository
that you do not trust you are asked before its address is contacted.`,
		Example: "  bestof mcp login issues\n  bestof mcp login issues --no-browser\n  bestof mcp login crm --client-id 1234 --port 8123",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.runMCPLogin(c.Context(), o, args[0]) },
	}
	o.addFlags(c.Flags())
	return c
}

func (a *app) runMCPLogin(ctx context.Context, o mcpLoginOptions, name string) error {
	servers, err := a.mcpStore(ctx)
	if err != nil {
		return err
	}
	entry, err := servers.Find("", name)
	if err != nil {
		return mcpError(err)
	}
	if entry.Server.Transport != mcp.HTTP {
		return usagef("%q is started on this machine and needs no login: put what it needs into its env", name)
	}
	if err := a.askToConnect(servers, entry, "log in"); err != nil {
		return err
	}
	home, err := a.home()
	if err != nil {
		return err
	}
	options, err := a.loginOptions(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "logging in to %s at %s\n", term.Clean(name, 0), term.Clean(entry.Server.Endpoint(), 0))
	sum, err := login.Login(ctx, login.NewStore(home), entry.Server, options)
	if err != nil {
		return loginError(err)
	}
	if a.json {
		doc := map[string]any{"schema": "bestof.mcp-login/1", "name": name, "resource": sum.Resource, "issuer": sum.Issuer, "scope": sum.Scope, "renews": sum.Renews}
		if !sum.Expires.IsZero() {
			doc["expires"] = sum.Expires
		}
		return a.printJSON(doc)
	}
	fmt.Fprintf(a.Out, "logged in to %s at %s\n", term.Clean(name, 0), term.Clean(sum.Issuer, 200))
	if sum.Scope != "" {
		fmt.Fprintf(a.Out, "it may: %s\n", term.Clean(sum.Scope, 400))
	}
	switch {
	case sum.Renews:
		fmt.Fprintln(a.Out, "the login renews itself")
	case !sum.Expires.IsZero():
		fmt.Fprintf(a.Out, "the login ends at %s\n", sum.Expires.Local().Format("2006-01-02 15:04"))
	}
	if !entry.Server.Usable() {
		fmt.Fprintf(a.Out, "it is withheld until `bestof mcp grant %s`\n", term.Clean(mcp.QuotedWord(name), 0))
	}
	return nil
}

// loginError gives a login's error its exit status: what a server or a person
// refused is no failure of the machine.
func loginError(err error) error {
	switch {
	case errors.Is(err, login.ErrTimedOut):
		return statusError{orchestrator.ExitTimedOut, err}
	case errors.Is(err, orchestrator.ErrInterrupted), errors.Is(err, context.Canceled):
		return err
	case outOfReach(err):
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	return refusedf("%w", err)
}

// outOfReach reports whether a name, a connection or a file failed, which is
// nobody's refusal.
func outOfReach(err error) bool {
	var name *net.DNSError
	var system syscall.Errno
	var slow net.Error
	return errors.As(err, &name) || errors.As(err, &system) || errors.As(err, &slow) && slow.Timeout()
}

func (a *app) loginOptions(o mcpLoginOptions) (login.Options, error) {
	cfg, err := a.mcpConfig()
	if err != nil {
		return login.Options{}, err
	}
	if o.timeout <= 0 || o.port < 0 || o.port > 65535 {
		return login.Options{}, usagef("--timeout is a length of time, and --port a number from 0 to 65535")
	}
	out := login.Options{ClientID: o.clientID, Scopes: o.scopes, Port: o.port, Timeout: o.timeout, Now: time.Now}
	if cfg.ClientIDURL != nil {
		out.ClientIDURL = *cfg.ClientIDURL
		if u, err := url.Parse(out.ClientIDURL); err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") == "" {
			return out, usagef("$BESTOF_HOME/config.toml: [mcp] client_id_url is %q: write an https address with a path", out.ClientIDURL)
		}
	}
	if o.clientSecret != "" {
		if o.clientID == "" {
			return out, usagef("--client-secret belongs to --client-id: give both")
		}
		secret := a.getenv(o.clientSecret)
		if secret == "" {
			if secret, err = a.askSecret(o.clientSecret); err != nil {
				return out, err
			}
		}
		out.ClientSecret = secret
	}
	out.Show = func(address string) {
		fmt.Fprintf(a.Err, "open this address and log in:\n%s\n", term.Clean(address, 0))
		if o.noBrowser {
			fmt.Fprintln(a.Err, "then paste the address at which the browser ends, or let it come back here")
		} else if a.streams().Interactive() && !openBrowser(address, a.Environ) {
			fmt.Fprintln(a.Err, "no browser could be opened; with --no-browser the address at which one ends can be pasted")
		}
	}
	if o.noBrowser {
		out.Paste = func(ctx context.Context) (string, error) {
			line, err := readLine(a.In)
			if err == nil && line == "" { // nobody pastes anything
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			return line, err
		}
	}
	return out, nil
}

// webAddress is an address that no program could take for anything else.
var webAddress = regexp.MustCompile(`^https?://[A-Za-z0-9\[][A-Za-z0-9.:\[\]-]*(/[A-Za-z0-9._~+,=:@%/-]*)?(\?[A-Za-z0-9._~+,=:@%/?&-]*)?$`)

// openBrowser starts the desktop's own opener with the address as its one
// argument, and leaves it to itself.
func openBrowser(address string, environ []string) bool {
	if !webAddress.MatchString(address) {
		return false
	}
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	cmd := exec.Command(opener, address)
	cmd.Env = environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		return false
	}
	go func() { _ = cmd.Wait() }() // the browser's end is its own affair
	return true
}

func (a *app) mcpLogoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout NAME",
		Short: "Forget the logins of an MCP server",
		Long: `Removes every stored login of the name, at whatever address, and asks the
authorization server to take the tokens back. It works for servers that are not
configured any more. Tokens that could not be taken back are said to be.`,
		Example: "  bestof mcp logout issues",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := a.home()
			if err != nil {
				return err
			}
			f, err := login.Logout(c.Context(), login.NewStore(home), args[0])
			if errors.Is(err, login.ErrNoLogin) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			for _, why := range f.Failed {
				a.warn("a token of %q was not taken back: %v", args[0], why)
			}
			if a.json {
				return a.printJSON(map[string]any{"schema": "bestof.mcp-logout/1", "name": args[0], "forgotten": f.Forgotten, "revoked": f.Revoked})
			}
			fmt.Fprintf(a.Out, "logged out of %s\n", term.Clean(args[0], 0))
			return nil
		},
	}
}
