package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

func ptr[T any](v T) *T { return &v }

func TestImageOptionsFill(t *testing.T) {
	configured := sandboxSettings{Image: ptr("conf"), CPUs: ptr(2.0), Memory: ptr("1GB"), PIDs: ptr(int64(9)), Warm: ptr(true)}
	for _, tt := range []struct {
		flags string
		want  imageOptions
	}{
		{"", imageOptions{ref: "conf", cpus: 2, memory: "1GB", pids: 9, warm: true}},
		{"image", imageOptions{ref: "flag", cpus: 2, memory: "1GB", pids: 9, warm: true, flags: []string{"--image"}}},
		{"devcontainer memory warm", imageOptions{devcontainer: true, cpus: 2, pids: 9, flags: []string{"--devcontainer"}}},
	} {
		given := func(name string) bool { return strings.Contains(" "+tt.flags+" ", " "+name+" ") }
		var got imageOptions
		if given("image") {
			got.ref = "flag"
		}
		got.devcontainer = given("devcontainer")
		got.fill(configured, given)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(imageOptions{})); diff != "" {
			t.Errorf("with %q:\n%s", tt.flags, diff)
		}
	}
}

func TestImageOptionsCheck(t *testing.T) {
	for _, tt := range []struct {
		o    imageOptions
		want string
	}{
		{imageOptions{ref: "a", flags: []string{"--image"}}, ""},
		{imageOptions{cpus: -1}, "--cpus"},
		{imageOptions{pids: -1}, "--pids"},
		{imageOptions{memory: "lots"}, "--memory"},
		{imageOptions{ref: "a", dockerfile: "b"}, "leave one out"},
		{imageOptions{flags: []string{"--image", "--dockerfile"}}, "--image and --dockerfile"},
	} {
		err := tt.o.check("docker")
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.o, err, tt.want)
		}
	}
	o := imageOptions{cpus: 1.5, memory: "1.5GB", pids: 40, ref: "a", warm: true}
	s := record.Settings{Image: &record.Image{Ref: "a"}, Limits: o.limits(), Warm: true}
	again := imagesOf(s)
	if diff := cmp.Diff(o.limits(), again.limits()); diff != "" || again.ref != "a" || !again.warm {
		t.Errorf("%+v: %s", again, diff)
	}
	if (imageOptions{}).limits() != nil {
		t.Error("nothing that was asked is a limit")
	}
}

// What the repository says about the image is one answer: it takes the place of
// the operator's whole.
func TestImageSettingsMerge(t *testing.T) {
	home, top := t.TempDir(), t.TempDir()
	for file, text := range map[string]string{
		filepath.Join(home, "config.toml"):        "[sandbox]\ndockerfile = \"D\"\ncpus = 2\n[plugin.a]\nimage = \"x\"\n[plugin.b]\nimage = \"y\"\n",
		filepath.Join(top, ".bestof/config.toml"): "[sandbox]\nimage = \"theirs\"\n[plugin.b]\nimage = \"z\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := loadConfig(home, top, false)
	if err != nil || got.Sandbox.Image != nil || *got.Sandbox.Dockerfile != filepath.Join(home, "D") {
		t.Errorf("untrusted: %+v, %v", got.Sandbox, err)
	}
	got, _, err = loadConfig(home, top, true)
	if err != nil || *got.Sandbox.Image != "theirs" || got.Sandbox.Dockerfile != nil || *got.Sandbox.CPUs != 2 {
		t.Errorf("trusted: %+v, %v", got.Sandbox, err)
	}
	if diff := cmp.Diff(map[string]onePlugin{"a": {Image: "x"}, "b": {Image: "z"}}, got.Plugin); diff != "" {
		t.Error(diff)
	}
}
