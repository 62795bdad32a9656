package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// systemd runs systemd-analyze and returns all that it prints.
func systemd(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("systemd-analyze", args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_COLORS=0", "LANG=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestUnits lets systemd itself read the units, which says nothing of any.
func TestUnits(t *testing.T) {
	for _, kind := range []string{"system", "user"} {
		units, err := filepath.Glob("systemd/" + kind + "/bestof*")
		if err != nil || len(units) != 3 {
			t.Fatalf("%s: %v %v", kind, units, err)
		}
		dir := t.TempDir()
		var copies []string
		for _, u := range units {
			text, err := os.ReadFile(u)
			if err != nil {
				t.Fatal(err)
			}
			// It looks whether the program is there.
			text = regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAll(text, []byte("ExecStart=/bin/true"))
			copies = append(copies, filepath.Join(dir, filepath.Base(u)))
			if err := os.WriteFile(copies[len(copies)-1], text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		// A user's manager needs a directory of the session, which a test lacks;
		// the words are the same for both.
		out, err := systemd(t, append([]string{"verify", "--man=no", "--recursive-errors=no"}, copies...)...)
		if err != nil || strings.Contains(out, dir) || strings.Contains(out, "bestof") {
			t.Errorf("%s units: %v\n%s", kind, err, out)
		}
	}
}

// TestUnitsAreHard holds the services of the system to a number of systemd's own,
// from 0, closed, to 100.
func TestUnitsAreHard(t *testing.T) {
	for _, unit := range []string{"bestof.service", "bestof-tick.service"} {
		if out, err := systemd(t, "security", "--offline=true", "--threshold=40", "systemd/system/"+unit); err != nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
	// What would break candidates is not in them: see TestBubblewrapUnderHardening.
	text, err := os.ReadFile("systemd/system/bestof.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"RestrictNamespaces", "ProtectKernelTunables", "ProtectControlGroups", "ProcSubset", "ProtectProc", "MemoryDenyWriteExecute", "PrivateUsers", "PrivateNetwork"} {
		if regexp.MustCompile(`(?m)^` + word + `=`).Match(text) {
			t.Errorf("%s would break candidates", word)
		}
	}
	for _, word := range []string{"Type=notify", "WatchdogSec=60", "NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateTmp=yes", "CapabilityBoundingSet=\n", "EnvironmentFile=-/etc/bestof/environment"} {
		if !strings.Contains(string(text), "\n"+word) {
			t.Errorf("%s is not there", word)
		}
	}
}

// TestBubblewrapUnderHardening does what systemd does for the directives that
// make mounts, and runs bubblewrap as an ordinary user there: with what the unit
// has it works, with ProtectKernelTunables= it does not.
func TestBubblewrapUnderHardening(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: only root makes the mounts that systemd makes")
	}
	const sandbox = `exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp true`
	for _, c := range []struct {
		what, mounts string
		works        bool
	}{
		{"nothing", "", true},
		{"ProtectSystem=strict", "mount --rbind / /mnt && mount -o remount,ro,bind /", true},
		{"PrivateTmp=yes, ProtectHome=yes", "mount -t tmpfs -o mode=1777 tmp /tmp && mount -t tmpfs -o mode=0 home /home && mount -t tmpfs -o mode=0 root /root", true},
		{"ProtectKernelTunables=yes", "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys", false},
	} {
		script := sandbox
		if c.mounts != "" {
			script = c.mounts + " && " + sandbox
		}
		cmd := exec.Command("unshare", "--mount", "--propagation=private", "sh", "-c", script)
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.works {
			t.Errorf("%s: bubblewrap: %v: %s", c.what, err, out)
		}
	}
}

// TestUnitsCallCommands: the commands of units are those that deploy_units.txtar
// runs.
func TestUnitsCallCommands(t *testing.T) {
	units, err := filepath.Glob("systemd/*/*.service")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, u := range units {
		text, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
			seen = append(seen, m[1])
		}
	}
	if want := "[job tick --log json daemon --log json job tick --log json daemon --log json]"; fmt.Sprint(seen) != want {
		t.Errorf("units call %v, and the scripts of the command line try %s", seen, want)
	}
}
