package app

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
)

// TestScriptsAsUser runs the scripts that are about who the user is again, as
// one who is nobody special and may not mount anything.
func TestScriptsAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("TestScripts itself has run as such a user")
		return
	}
	// Neither the build directory nor a test's own is open to that user.
	dir, err := os.MkdirTemp("/tmp", "scripts-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	const uid = 12345
	scripts := []string{"shadow_userns", "shadow_auto", "p7_kill", "docker_shadow"}
	engine := dockertest.NewProxy(t, dockertest.Host(t), uid).Host
	tmp := filepath.Join(dir, "tmp")
	err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "app.test"), self, 0o755), os.Mkdir(tmp, 0o700), os.Chown(tmp, uid, uid))
	for _, name := range scripts {
		text, rerr := os.ReadFile(filepath.Join("testdata/script", name+".txtar"))
		at := filepath.Join(dir, "testdata/script", name+".txtar")
		err = errors.Join(err, rerr, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, text, 0o644))
	}
	shipped := filepath.Join(dir, "bin", "bestof")
	if err = errors.Join(err, static(shipped)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "app.test"), "-test.run=^TestScripts$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + tmp, "HOME=" + tmp, "DOCKER_HOST=" + engine, staticVariable + "=" + shipped}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if n := bytes.Count(out, []byte("--- PASS: TestScripts/")); err != nil || n != len(scripts) {
		t.Errorf("%d scripts passed, %v\n%s", n, err, out)
	}
}
