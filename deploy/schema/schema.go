// Package schema reads the manifests of Kubernetes that this project writes, as
// strictly as an API server that refuses unknown fields, and checks what it
// would check. It has as much of the API as they use, for tests without a
// cluster.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Meta is the metadata of an object.
type Meta struct {
	Name         string            `yaml:"name"`
	GenerateName string            `yaml:"generateName"`
	Namespace    string            `yaml:"namespace"`
	Labels       map[string]string `yaml:"labels"`
	Annotations  map[string]string `yaml:"annotations"`
}

// Head is what every object begins with.
type Head struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   Meta   `yaml:"metadata"`
}

// CronJob is batch/v1's.
type CronJob struct {
	Head `yaml:",inline"`
	Spec struct {
		Schedule                   string `yaml:"schedule"`
		TimeZone                   string `yaml:"timeZone"`
		ConcurrencyPolicy          string `yaml:"concurrencyPolicy"`
		StartingDeadlineSeconds    *int64 `yaml:"startingDeadlineSeconds"`
		Suspend                    bool   `yaml:"suspend"`
		SuccessfulJobsHistoryLimit *int32 `yaml:"successfulJobsHistoryLimit"`
		FailedJobsHistoryLimit     *int32 `yaml:"failedJobsHistoryLimit"`
		JobTemplate                struct {
			Metadata Meta    `yaml:"metadata"`
			Spec     JobSpec `yaml:"spec"`
		} `yaml:"jobTemplate"`
	} `yaml:"spec"`
}

// Job is batch/v1's.
type Job struct {
	Head `yaml:",inline"`
	Spec JobSpec `yaml:"spec"`
}

// JobSpec is batch/v1's.
type JobSpec struct {
	BackoffLimit            *int32   `yaml:"backoffLimit"`
	ActiveDeadlineSeconds   *int64   `yaml:"activeDeadlineSeconds"`
	TTLSecondsAfterFinished *int32   `yaml:"ttlSecondsAfterFinished"`
	Template                Template `yaml:"template"`
}

// Deployment is apps/v1's.
type Deployment struct {
	Head `yaml:",inline"`
	Spec struct {
		Replicas *int32 `yaml:"replicas"`
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"selector"`
		Strategy struct {
			Type string `yaml:"type"`
		} `yaml:"strategy"`
		Template Template `yaml:"template"`
	} `yaml:"spec"`
}

// Template is that of a pod.
type Template struct {
	Metadata Meta `yaml:"metadata"`
	Spec     Pod  `yaml:"spec"`
}

// Pod is the spec of a pod.
type Pod struct {
	RestartPolicy                 string      `yaml:"restartPolicy"`
	TerminationGracePeriodSeconds *int64      `yaml:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken  *bool       `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            *bool       `yaml:"enableServiceLinks"`
	HostUsers                     *bool       `yaml:"hostUsers"`
	SecurityContext               PodSafe     `yaml:"securityContext"`
	Containers                    []Container `yaml:"containers"`
	Volumes                       []Volume    `yaml:"volumes"`
}

// PodSafe is the security context of a pod.
type PodSafe struct {
	RunAsNonRoot        bool    `yaml:"runAsNonRoot"`
	RunAsUser           *int64  `yaml:"runAsUser"`
	RunAsGroup          *int64  `yaml:"runAsGroup"`
	FSGroup             *int64  `yaml:"fsGroup"`
	FSGroupChangePolicy string  `yaml:"fsGroupChangePolicy"`
	SeccompProfile      Seccomp `yaml:"seccompProfile"`
}

// Seccomp names a profile.
type Seccomp struct {
	Type string `yaml:"type"`
}

// Container is one of a pod.
type Container struct {
	Name    string   `yaml:"name"`
	Image   string   `yaml:"image"`
	Command []string `yaml:"command"`
	Args    []string `yaml:"args"`
	Env     []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	EnvFrom []struct {
		SecretRef struct {
			Name     string `yaml:"name"`
			Optional bool   `yaml:"optional"`
		} `yaml:"secretRef"`
	} `yaml:"envFrom"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct {
			Drop []string `yaml:"drop"`
		} `yaml:"capabilities"`
	} `yaml:"securityContext"`
	Resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

// Volume is one of a pod.
type Volume struct {
	Name                  string `yaml:"name"`
	PersistentVolumeClaim *struct {
		ClaimName string `yaml:"claimName"`
	} `yaml:"persistentVolumeClaim"`
	EmptyDir *struct {
		SizeLimit string `yaml:"sizeLimit"`
	} `yaml:"emptyDir"`
}

// Claim is a PersistentVolumeClaim of v1.
type Claim struct {
	Head `yaml:",inline"`
	Spec struct {
		AccessModes []string `yaml:"accessModes"`
		Resources   struct {
			Requests map[string]string `yaml:"requests"`
		} `yaml:"resources"`
	} `yaml:"spec"`
}

// Namespace is v1's.
type Namespace struct {
	Head `yaml:",inline"`
}

// NetworkPolicy is networking.k8s.io/v1's.
type NetworkPolicy struct {
	Head `yaml:",inline"`
	Spec struct {
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []struct{}
		Egress      []struct {
			To []struct {
				IPBlock *struct {
					CIDR   string   `yaml:"cidr"`
					Except []string `yaml:"except"`
				} `yaml:"ipBlock"`
				NamespaceSelector *struct {
					MatchLabels map[string]string `yaml:"matchLabels"`
				} `yaml:"namespaceSelector"`
				PodSelector *struct {
					MatchLabels map[string]string `yaml:"matchLabels"`
				} `yaml:"podSelector"`
			} `yaml:"to"`
			Ports []struct {
				Protocol string `yaml:"protocol"`
				Port     int    `yaml:"port"`
			} `yaml:"ports"`
		} `yaml:"egress"`
	} `yaml:"spec"`
}

// Kustomization is kustomize.config.k8s.io/v1beta1's.
type Kustomization struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Namespace  string   `yaml:"namespace"`
	Resources  []string `yaml:"resources"`
	Images     []struct {
		Name    string `yaml:"name"`
		NewName string `yaml:"newName"`
		Digest  string `yaml:"digest"`
	} `yaml:"images"`
}

// kinds are what can be read, by version and kind.
var kinds = map[string]func() any{
	"batch/v1 CronJob":                              func() any { return new(CronJob) },
	"batch/v1 Job":                                  func() any { return new(Job) },
	"apps/v1 Deployment":                            func() any { return new(Deployment) },
	"v1 PersistentVolumeClaim":                      func() any { return new(Claim) },
	"v1 Namespace":                                  func() any { return new(Namespace) },
	"networking.k8s.io/v1 NetworkPolicy":            func() any { return new(NetworkPolicy) },
	"kustomize.config.k8s.io/v1beta1 Kustomization": func() any { return new(Kustomization) },
}

// Read reads every document of a file.
func Read(text []byte) ([]any, error) {
	var all []any
	loose := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		if err := loose.Decode(&node); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		var head struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
		}
		if err := node.Decode(&head); err != nil {
			return nil, err
		}
		make, ok := kinds[head.APIVersion+" "+head.Kind]
		if !ok {
			return nil, fmt.Errorf("there is no kind %q of %q", head.Kind, head.APIVersion)
		}
		one, err := yaml.Marshal(&node)
		if err != nil {
			return nil, err
		}
		object := make()
		strict := yaml.NewDecoder(bytes.NewReader(one))
		strict.KnownFields(true)
		if err := strict.Decode(object); err != nil {
			return nil, fmt.Errorf("%s: %w", head.Kind, err)
		}
		if err := check(object); err != nil {
			return nil, fmt.Errorf("%s: %w", head.Kind, err)
		}
		all = append(all, object)
	}
}

var (
	dnsName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	cronField = regexp.MustCompile(`^(\*|\d+(-\d+)?(,\d+(-\d+)?)*)$`)
	byDigest  = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
)

// maxCronJob is the longest name: that of a Job has eleven bytes more.
const maxCronJob = 52

func check(object any) error {
	switch o := object.(type) {
	case *CronJob:
		if len(o.Metadata.Name) > maxCronJob || !dnsName.MatchString(o.Metadata.Name) {
			return fmt.Errorf("the name %q", o.Metadata.Name)
		}
		fields := strings.Split(o.Spec.Schedule, " ")
		if len(fields) != 5 || slices.ContainsFunc(fields, func(f string) bool { return !cronField.MatchString(f) }) {
			return fmt.Errorf("the schedule %q", o.Spec.Schedule)
		}
		if o.Spec.TimeZone == "" || strings.EqualFold(o.Spec.TimeZone, "local") {
			return fmt.Errorf("the time zone %q", o.Spec.TimeZone)
		}
		if !slices.Contains([]string{"Allow", "Forbid", "Replace"}, o.Spec.ConcurrencyPolicy) {
			return fmt.Errorf("the concurrency policy %q", o.Spec.ConcurrencyPolicy)
		}
		return o.Spec.JobTemplate.Spec.Template.Spec.check("Never", "OnFailure")
	case *Job:
		return o.Spec.Template.Spec.check("Never", "OnFailure")
	case *Deployment:
		for k, v := range o.Spec.Selector.MatchLabels {
			if o.Spec.Template.Metadata.Labels[k] != v {
				return fmt.Errorf("it selects %s=%s, which its pods are not", k, v)
			}
		}
		return o.Spec.Template.Spec.check("", "Always")
	}
	return nil
}

// check is the restricted standard for pods, and that volumes and mounts fit.
func (p Pod) check(restart ...string) error {
	if !slices.Contains(restart, p.RestartPolicy) {
		return fmt.Errorf("the restart policy %q", p.RestartPolicy)
	}
	if s := p.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" {
		return errors.New("it may run as root, or without a seccomp profile")
	}
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		return errors.New("it gets a token of the cluster")
	}
	if len(p.Containers) == 0 {
		return errors.New("it has no container")
	}
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		if (v.PersistentVolumeClaim == nil) == (v.EmptyDir == nil) {
			return fmt.Errorf("volume %s is not of one kind", v.Name)
		}
		volumes[v.Name] = true
	}
	for _, c := range p.Containers {
		s := c.SecurityContext
		if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
			return fmt.Errorf("container %s is open", c.Name)
		}
		if !byDigest.MatchString(c.Image) {
			return fmt.Errorf("the image %q has no digest", c.Image)
		}
		if c.Resources.Limits["memory"] == "" {
			return fmt.Errorf("container %s has no limit of memory", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || !strings.HasPrefix(m.MountPath, "/") {
				return fmt.Errorf("container %s mounts %q at %q", c.Name, m.Name, m.MountPath)
			}
		}
	}
	return nil
}
