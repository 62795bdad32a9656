package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	images "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
)

// MountsLayers says that this sandbox runs what sandbox.Entry calls layered: a
// volume of the engine is the overlay, which it mounts while a container has
// it. All containers of one shadow have the same volume, since an upper layer
// may be mounted only once.
func (s *Sandbox) MountsLayers() bool { return true }

// volumes gives this process names of volumes that nobody else has.
var volumes = sync.OnceValue(rand.Text)

func volumeOf(e sandbox.Entry) string {
	sum := sha256.Sum256([]byte(volumes() + e.Upper))
	return "bestof-" + hex.EncodeToString(sum[:16])
}

// overlay is the mount of a layered root.
func overlay(r settled, target string) mount.Mount {
	e := r.spec.Enter
	labels := maps.Clone(r.labels)
	labels[labelOne] = volumeOf(e)
	delete(labels, "bestof.phase") // one container's
	return mount.Mount{
		Type: mount.TypeVolume, Source: volumeOf(e), Target: target,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: labels, DriverConfig: &mount.Driver{Name: "local", Options: map[string]string{
			"type": "overlay", "device": "overlay",
			"o": fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,index=off,userxattr,nosuid,nodev", e.Lower, e.Upper, e.Work),
		}}},
	}
}

// dropVolume removes a volume, whatever became of ctx, unless another container
// has it, which then removes it in its turn.
func (s *Sandbox) dropVolume(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if err := removeVolume(ctx, s.client, name); err != nil && !errdefs.IsConflict(err) {
		return fmt.Errorf("remove its volume: %s", oneLine(err))
	}
	return nil
}

func removeVolume(ctx context.Context, c *client.Client, name string) error {
	return untilAnswered(ctx, func(ctx context.Context) (bool, error) {
		err := c.VolumeRemove(ctx, name, false)
		if errdefs.IsNotFound(err) {
			err = nil
		}
		return err == nil || errdefs.IsConflict(err), err
	})
}

// reapVolumes removes the volumes that left tells to be nobody's.
func reapVolumes(ctx context.Context, c *client.Client, left func(map[string]string) bool, dryRun bool) error {
	limited, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	all, err := c.VolumeList(limited, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelOwner))})
	if err != nil {
		return silent(ctx, c.DaemonHost(), err)
	}
	for _, v := range all.Volumes {
		if v == nil || !left(v.Labels) || dryRun {
			continue
		}
		if err := removeVolume(ctx, c, v.Name); err != nil {
			return fmt.Errorf("remove the volume %.40q: %w", v.Name, err)
		}
	}
	return nil
}

// Sweep removes the directory "work" in each of the directories, which are on
// this machine: what an overlay of the engine left there belongs to its root. A
// container does it, of any image, whose one process is this program; it has no
// network, sees nothing else and may do nothing but write where it is not the
// owner.
func Sweep(ctx context.Context, environ []string, dirs []string) error {
	c, f, err := ask(ctx, environ)
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := anyImage(ctx, c)
	if err != nil {
		return err
	}
	s, err := newSandbox(ctx, c, f, sandbox.Options{Environ: environ}, Options{Image: id})
	if err != nil {
		return err
	}
	return s.Sweep(ctx, dirs)
}

// anyImage is the id of the smallest image that the engine has.
func anyImage(ctx context.Context, c *client.Client) (string, error) {
	limited, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	all, err := c.ImageList(limited, images.ListOptions{})
	if err != nil {
		return "", silent(ctx, c.DaemonHost(), err)
	}
	var best images.Summary
	for _, i := range all {
		if best.ID == "" || i.Size < best.Size {
			best = i
		}
	}
	if best.ID == "" {
		return "", unavailable("the engine has no image", "Pull any.")
	}
	return best.ID, nil
}

// sweptAtOnce bounds the mounts of one container.
const sweptAtOnce = 64

// Sweep is the function of the same name, with this sandbox's image.
func (s *Sandbox) Sweep(ctx context.Context, dirs []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
	defer cancel()
	for len(dirs) > 0 {
		n := min(len(dirs), sweptAtOnce)
		if err := s.sweep(ctx, dirs[:n]); err != nil {
			return fmt.Errorf("remove what overlays left: %w", err)
		}
		dirs = dirs[n:]
	}
	return nil
}

func (s *Sandbox) sweep(ctx context.Context, dirs []string) (err error) {
	one := rand.Text()
	p, err := s.sweeper(dirs, one)
	if err != nil {
		return err
	}
	c, err := s.begin(ctx, p, one)
	if err != nil || c == nil {
		return errors.Join(err, ctx.Err())
	}
	defer func() { err = errors.Join(err, s.drop(ctx, c)) }()
	defer c.conn.Close()
	done, failed := s.client.ContainerWait(ctx, c.id, container.WaitConditionNotRunning)
	select {
	case err := <-failed:
		return engineError(ctx, "wait for its container", err)
	case end := <-done:
		if end.StatusCode != 0 {
			return fmt.Errorf("its container ended with status %d", end.StatusCode)
		}
	}
	return nil
}

// sweeper plans the container that sweeps.
func (s *Sandbox) sweeper(dirs []string, one string) (plan, error) {
	// Something to plan by: nobody uses the places of a sweeper.
	spec := sandbox.Spec{Root: "/.bestof-sweep/root", Home: "/.bestof-sweep/home", Network: sandbox.NetworkNone, Labels: map[string]string{"bestof.phase": "sweep"}}
	p, err := s.planned(settled{spec: spec, self: s.self, labels: withLabels(s.owner, spec, one)})
	if err != nil {
		return plan{}, err
	}
	argv := inside.SweepArgs()
	p.host.Mounts = nil
	bind := func(source, target string, readOnly bool) {
		p.host.Mounts = append(p.host.Mounts, mount.Mount{
			Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
		})
	}
	bind(s.self, initPath, true)
	for i, dir := range dirs {
		at := fmt.Sprintf("/.bestof-sweep/%d", i)
		bind(dir, at, false)
		argv = append(argv, at)
	}
	p.config.User, p.host.CapAdd = "0:0", []string{"DAC_OVERRIDE"}
	p.config.Entrypoint = append([]string{initPath}, argv...)
	p.config.NetworkDisabled = true
	return p, nil
}

// TryLayers mounts the layers of an overlay at root with the operator's engine
// and any of its images, and starts this program there.
func TryLayers(ctx context.Context, environ []string, e sandbox.Entry, root, home string) error {
	c, f, err := ask(ctx, environ)
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := anyImage(ctx, c)
	if err != nil {
		return err
	}
	s, err := newSandbox(ctx, c, f, sandbox.Options{Environ: environ}, Options{Image: id})
	if err != nil {
		return err
	}
	const self = "/.bestof-program"
	_, err = s.Run(ctx, sandbox.Spec{
		Argv: append([]string{self}, inside.SweepArgs()...), Root: root, Home: home, Enter: e, Binds: []sandbox.Bind{{Source: s.self, Target: self}},
		Network: sandbox.NetworkNone, Timeout: askWait,
	})
	return err
}
