package fence

import (
	"fmt"
	"net"
	"path"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	kubernetesFile = "../../deploy/kubernetes.yaml"
	sampleFile     = "../../deploy/outbox.yaml"
)

// The objects of a manifest, with exactly the keys that ours has.
type (
	object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   metadata
		Data       map[string]string
		StringData map[string]string `yaml:"stringData"`
		Type       string
		Spec       deployment
	}
	metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	deployment struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Strategy struct {
			Type          string
			RollingUpdate struct {
				MaxSurge       int `yaml:"maxSurge"`
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		}
		Template struct {
			Metadata metadata
			Spec     pod
		}
	}
	pod struct {
		Grace           int   `yaml:"terminationGracePeriodSeconds"`
		ServiceLinks    *bool `yaml:"enableServiceLinks"`
		Token           *bool `yaml:"automountServiceAccountToken"`
		SecurityContext struct {
			RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
			RunAsUser      int                   `yaml:"runAsUser"`
			RunAsGroup     int                   `yaml:"runAsGroup"`
			FSGroup        int                   `yaml:"fsGroup"`
			SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Containers []container
		Volumes    []volume
	}
	variable struct {
		Name, Value string
		From        struct {
			Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	container struct {
		Name, Image string
		Args        []string
		Env         []variable
		Mounts      []struct {
			Name     string
			Path     string `yaml:"mountPath"`
			ReadOnly bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
		Ports []struct {
			Name string
			Port int `yaml:"containerPort"`
		}
		Readiness *probe `yaml:"readinessProbe"`
		Liveness  *probe `yaml:"livenessProbe"`
		Resources struct {
			Requests, Limits map[string]string
		}
		SecurityContext struct {
			Escalation   *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities struct{ Drop []string }
		} `yaml:"securityContext"`
	}
	probe struct {
		HTTP      struct{ Path, Port string } `yaml:"httpGet"`
		Period    int                         `yaml:"periodSeconds"`
		Timeout   int                         `yaml:"timeoutSeconds"`
		Threshold int                         `yaml:"failureThreshold"`
	}
	volume struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			Name string `yaml:"secretName"`
			Mode int    `yaml:"defaultMode"`
		}
	}
)

// manifest is the objects by kind; there is one of each.
func manifest(text string) (map[string]*object, error) {
	var objects []*object
	err := strictly(text, func(int) any {
		objects = append(objects, &object{})
		return objects[len(objects)-1]
	})
	byKind := map[string]*object{"ConfigMap": {}, "Secret": {}, "Deployment": {}}
	for _, o := range objects {
		if byKind[o.Kind] == nil && o.Kind != "" {
			return nil, fmt.Errorf("unknown kind %q", o.Kind)
		}
		byKind[o.Kind] = o
	}
	return byKind, err
}

func kubernetesProblems(t *testing.T, text string) (problems []string) {
	t.Helper()
	objects, err := manifest(text)
	if err != nil {
		return []string{err.Error()}
	}
	spec := objects["Deployment"].Spec
	if len(spec.Template.Spec.Containers) != 1 {
		return []string{"the deployment has not one container"}
	}
	if !reflect.DeepEqual(spec.Selector.MatchLabels, spec.Template.Metadata.Labels) {
		problems = append(problems, "the selector does not select the pods")
	}
	if !sameYAML(objects["ConfigMap"].Data["outbox.yaml"], read(t, sampleFile)) {
		problems = append(problems, "the configuration is not that of "+sampleFile)
	}
	problems = append(problems, podProblems(spec.Template.Spec)...)
	problems = append(problems, adminProblems(spec.Template.Spec.Containers[0], spec.Template.Metadata.Annotations["prometheus.io/port"])...)
	files, missing := mounted(objects)
	w := workloadOf(spec.Template.Spec, files)
	missing = append(missing, w.setSecrets(spec.Template.Spec.Containers[0].Env, objects["Secret"])...)
	return append(append(problems, missing...), w.problems(t)...)
}

func sameYAML(a, b string) bool {
	var x, y any
	return yaml.Unmarshal([]byte(a), &x) == nil && yaml.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// mounted is the files that the container sees.
func mounted(objects map[string]*object) (files map[string]string, problems []string) {
	files = map[string]string{}
	spec := objects["Deployment"].Spec.Template.Spec
	for _, m := range spec.Containers[0].Mounts {
		i := slices.IndexFunc(spec.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 || !m.ReadOnly {
			problems = append(problems, "mount "+m.Name+" has no volume, or is writable")
			continue
		}
		source, data := objects["ConfigMap"], objects["ConfigMap"].Data
		name := spec.Volumes[i].ConfigMap.Name
		if secret := spec.Volumes[i].Secret; secret.Name != "" {
			source, data, name = objects["Secret"], objects["Secret"].StringData, secret.Name
			if secret.Mode&0o007 != 0 {
				problems = append(problems, fmt.Sprintf("everybody can read the secret: mode %o", secret.Mode))
			}
		}
		if name != source.Metadata.Name {
			problems = append(problems, "volume "+m.Name+" is of "+name+", which is not there")
		}
		for file, text := range data {
			files[path.Join(m.Path, file)] = text
		}
	}
	return files, problems
}

// setSecrets sets the variables that come from the secret.
func (w workload) setSecrets(env []variable, secret *object) (problems []string) {
	for _, e := range env {
		from := e.From.Secret
		if from.Name == "" {
			continue
		}
		value, ok := secret.StringData[from.Key]
		if from.Name != secret.Metadata.Name || !ok {
			problems = append(problems, "variable "+e.Name+" is of a secret that is not there")
		}
		w.env[e.Name] = value
	}
	return problems
}

func workloadOf(p pod, files map[string]string) workload {
	c := p.Containers[0]
	w := workload{args: c.Args, env: map[string]string{}, files: files, grace: time.Duration(p.Grace) * time.Second}
	for _, e := range c.Env {
		w.env[e.Name] = e.Value
	}
	return w
}

func podProblems(p pod) (problems []string) {
	check := func(ok bool, problem string) {
		if !ok {
			problems = append(problems, problem)
		}
	}
	c := p.Containers[0]
	no := func(b *bool) bool { return b != nil && !*b }
	check(no(p.ServiceLinks), "service links are on")
	check(no(p.Token), "the pod has a token for the cluster")
	check(p.SecurityContext.RunAsNonRoot && p.SecurityContext.RunAsUser > 0, "the pod may run as root")
	check(p.SecurityContext.FSGroup == p.SecurityContext.RunAsGroup, "the program cannot read its secrets")
	check(no(c.SecurityContext.Escalation) && c.SecurityContext.ReadOnly && slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL"),
		"the container has rights that it does not need")
	check(c.Resources.Requests["memory"] != "" && c.Resources.Limits["memory"] != "", "the container has no bounds of memory")
	check(c.Readiness != nil && c.Liveness != nil, "a probe is missing")
	for _, probe := range []*probe{c.Readiness, c.Liveness} {
		check(probe == nil || probe.Timeout >= 2 && probe.Timeout <= probe.Period, "a probe has no time, or more than its period")
	}
	if c.Readiness != nil && c.Liveness != nil {
		check(c.Readiness.HTTP.Path == "/readyz", "the readiness probe asks something else")
		check(c.Liveness.HTTP.Path == "/livez", "the liveness probe asks something else: it must not depend on the database")
		// The relay's own watch may be late for 30 s.
		check(c.Liveness.Period*c.Liveness.Threshold >= 60, "the relay is restarted too soon")
	}
	return problems
}

// adminProblems compares the port that probes and scrapes go to with the setting.
func adminProblems(c container, annotated string) (problems []string) {
	listen := ""
	for _, e := range c.Env {
		if e.Name == "OUTBOX_ADMIN_LISTEN" {
			listen = e.Value
		}
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || host == "127.0.0.1" || host == "localhost" {
		return []string{fmt.Sprintf("probes from outside do not reach admin.listen %q", listen)}
	}
	if annotated != "" && annotated != port {
		problems = append(problems, fmt.Sprintf("scrapes go to port %s, admin.listen is %q", annotated, listen))
	}
	for _, probe := range []*probe{c.Readiness, c.Liveness} {
		leads := probe == nil
		for _, p := range c.Ports {
			leads = leads || p.Name == probe.HTTP.Port && strconv.Itoa(p.Port) == port
		}
		if !leads {
			problems = append(problems, fmt.Sprintf("the port of a probe is not that of admin.listen %q", listen))
		}
	}
	return problems
}

// TestKubernetes: the manifest's relay has settings and commands that the program takes, time to stop, and few rights.
func TestKubernetes(t *testing.T) {
	wantFaults(t, kubernetesFile, kubernetesProblems,
		fault{"terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 20", "killed after 20s"},
		fault{"terminationGracePeriodSeconds: 30", "terminationGracePeriodSecond: 30", "not found in type"},
		fault{"drain_timeout: 20s", "drain_timeout: 40s", "drain_timeout is 40s"},
		fault{"drain_timeout: 20s", "drain_timeout: 10s", "not that of"},
		fault{"drain_timeout:", "drain_time:", "drain_time: there is no such key"},
		fault{"OUTBOX_DATABASE_URL_FILE", "OUTBOX_DATABASE_FILE", "OUTBOX_DATABASE_FILE: there is no such setting"},
		fault{"value: /run/secrets/outbox/database-url", "value: /run/secrets/database-url", "no such file"},
		fault{"value: /etc/outbox/outbox.yaml", "value: /etc/outbox.yaml", "no such file"},
		fault{"name: AMQP_URL", "name: AMQP", "the variable AMQP_URL is not set"},
		fault{"key: amqp-url", "key: url", "a secret that is not there"},
		fault{"name: NATS_URL", "name: NATS", "the variable NATS_URL is not set"},
		fault{"path: /readyz", "path: /livez", "the readiness probe"},
		fault{"path: /livez", "path: /readyz", "the liveness probe"},
		fault{"containerPort: 9187", "containerPort: 8080", "the port of a probe"},
		fault{"port: admin", "port: http", "the port of a probe"},
		fault{`":9187"`, `"127.0.0.1:9187"`, "do not reach"},
		fault{"OUTBOX_ADMIN_LISTEN", "OUTBOX_ADMIN", "OUTBOX_ADMIN: there is no such setting"},
		fault{`prometheus.io/port: "9187"`, `prometheus.io/port: "80"`, "scrapes go to port 80"},
		fault{"livenessProbe", "readinessProbe", "already defined"},
		fault{"failureThreshold: 6", "failureThreshold: 3", "too soon"},
		fault{"timeoutSeconds: 2", "timeoutSeconds: 1", "no time"},
		fault{"runAsUser: 65532", "runAsUser: 0", "as root"},
		fault{"runAsNonRoot: true", "runAsNonRoot: false", "as root"},
		fault{"fsGroup: 65532", "fsGroup: 1", "cannot read"},
		fault{"enableServiceLinks: false", "enableServiceLinks: true", "service links"},
		fault{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "rights"},
		fault{"defaultMode: 0440", "defaultMode: 0444", "everybody"},
		fault{"secretName: outbox", "secretName: shop", "not there"},
		fault{"{name: secrets, mountPath", "{name: secret, mountPath", "no volume"},
		fault{"limits: {memory: 256Mi}", "limits: {}", "bounds of memory"},
		fault{"matchLabels: {app.kubernetes.io/name: outbox}", "matchLabels: {app: outbox}", "selector"},
		fault{"kind: Secret", "kind: Secrets", "unknown kind"},
		fault{`args: ["run"]`, `args: ["serve"]`, "not with run"})
}
