package sandboxtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// AsUser runs one test of this binary, not the caller, again as another user,
// with the environment added. Only root can; for anybody else the test itself
// has run as such a user.
func AsUser(t *testing.T, uid uint32, test string, env ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	// Neither the build directory nor a test's own is open to that user.
	dir, err := os.MkdirTemp("/tmp", "sandboxtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe, tmp := filepath.Join(dir, "test"), filepath.Join(dir, "tmp")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(exe, self, 0o755), os.Mkdir(tmp, 0o700), os.Chown(tmp, int(uid), int(uid))); err != nil {
		t.Fatal(err)
	}
	if plain := os.Getenv(plainVariable); plain != "" {
		own := filepath.Join(dir, "plain")
		if err := os.CopyFS(own, os.DirFS(plain)); err != nil {
			t.Fatal(err)
		}
		env = append(env, plainVariable+"="+own)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^"+test+"$", "-test.v")
	cmd.Dir = tmp
	cmd.Env = append([]string{"PATH=" + sandbox.DefaultPath, "TMPDIR=" + tmp, "HOME=" + tmp}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+test)) {
		t.Errorf("as user %d: %v\n%s", uid, err, out)
	}
}
