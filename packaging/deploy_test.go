package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	helmloader "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifests are the objects that a chart makes, by their kind.
type manifests map[string][]any

// strictly decodes an object of Kubernetes and refuses unknown fields.
func strictly(t *testing.T, doc []byte) (kind string, object any) {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	must(t, yaml.Unmarshal(doc, &head))
	all := map[string]any{
		"v1/ConfigMap": &core.ConfigMap{}, "v1/Service": &core.Service{}, "v1/PersistentVolumeClaim": &core.PersistentVolumeClaim{},
		"apps/v1/StatefulSet": &apps.StatefulSet{}, "policy/v1/PodDisruptionBudget": &policy.PodDisruptionBudget{},
		"networking.k8s.io/v1/NetworkPolicy": &networking.NetworkPolicy{}, "monitoring.coreos.com/v1/ServiceMonitor": &monitoring.ServiceMonitor{},
	}
	object = all[head.APIVersion+"/"+head.Kind]
	if object == nil {
		t.Fatalf("unknown object %s %s", head.APIVersion, head.Kind)
	}
	if err := yaml.UnmarshalStrict(doc, object); err != nil {
		t.Fatalf("%s: %v\n%s", head.Kind, err, doc)
	}
	return head.Kind, object
}

// needed are the values that every installation names.
const needed = `
image: {repository: registry.example/remit, tag: 1.2.3}
database: {secret: ledger}
hosts: [remit.example]
`

// render renders the chart with values, as helm template does.
func render(t *testing.T, values string) (manifests, error) {
	t.Helper()
	chart, err := helmloader.LoadDir("chart/remit")
	must(t, err)
	user, err := chartutil.ReadValues([]byte(values))
	must(t, err)
	all, err := chartutil.ToRenderValues(chart, user, chartutil.ReleaseOptions{Name: "remit", Namespace: "agents"}, nil)
	must(t, err)
	files, err := (engine.Engine{Strict: true}).Render(chart, all)
	if err != nil {
		return nil, err
	}
	out := manifests{}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for docs := yamlutil.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			if len(bytes.TrimSpace(doc)) > 0 {
				kind, object := strictly(t, doc)
				out[kind] = append(out[kind], object)
			}
		}
	}
	return out, nil
}

// pod is the template of the nodes.
func (m manifests) pod() core.PodSpec {
	return m["StatefulSet"][0].(*apps.StatefulSet).Spec.Template.Spec
}

func TestTheChartIsLintedAndRendered(t *testing.T) {
	var values map[string]any
	must(t, yaml.Unmarshal([]byte(needed+"tls: {secret: cert}"), &values))
	for _, m := range lint.AllWithKubeVersion("chart/remit", values, "agents", nil).Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("helm lint: %v", m)
		}
	}
	for name, c := range map[string]struct {
		values string
		kinds  map[string]int
	}{
		"least": {"tls: {secret: cert}", map[string]int{"ConfigMap": 1, "NetworkPolicy": 1, "PersistentVolumeClaim": 1, "PodDisruptionBudget": 1, "Service": 2, "StatefulSet": 1}},
		"one":   {"tls: {terminatedBefore: true}\nreplicas: 1\nnetworkPolicy: {enabled: false}\nhome: {existingClaim: h}", map[string]int{"ConfigMap": 1, "Service": 2, "StatefulSet": 1}},
		"all": {`
tls: {secret: cert}
policy: "version: 1\nname: \"{{ fail }}\"\n"
proxies: [10.0.0.5, "fd00::/8"]
workers: {enabled: true}
workspace: {size: 20Gi, storageClass: shared}
metrics: {serviceMonitor: true, secret: scraper}
networkPolicy: {egress: [{ports: [{port: 5432}]}]}
image: {digest: "sha256:00", pullSecrets: [pull]}
env: [{name: OTEL_SERVICE_NAME, value: remit}]
podAnnotations: {team: agents}
nodeSelector: {disk: ssd}
tolerations: [{key: agents, operator: Exists}]
affinity: {nodeAffinity: {}}
serviceAccountName: remit
`, map[string]int{"ConfigMap": 1, "NetworkPolicy": 1, "PersistentVolumeClaim": 2, "PodDisruptionBudget": 1, "Service": 2, "ServiceMonitor": 1, "StatefulSet": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			both, err := chartutil.ReadValues([]byte(needed))
			must(t, err)
			more, err := chartutil.ReadValues([]byte(c.values))
			must(t, err)
			text, err := chartutil.Values(chartutil.CoalesceTables(more, both)).YAML()
			must(t, err)
			m, err := render(t, text)
			must(t, err)
			for kind := range m {
				if len(m[kind]) != c.kinds[kind] {
					t.Errorf("%d of %s, want %d", len(m[kind]), kind, c.kinds[kind])
				}
			}
			if len(m) != len(c.kinds) {
				t.Errorf("got the kinds %v", m)
			}
			checkPod(t, m.pod())
		})
	}
}

// checkPod checks what holds for every pod: its commands exist, and it may do no more than it
// needs.
func checkPod(t *testing.T, p core.PodSpec) {
	t.Helper()
	if *p.AutomountServiceAccountToken || !*p.SecurityContext.RunAsNonRoot || p.HostNetwork || p.HostPID || p.HostUsers == nil || *p.HostUsers {
		t.Errorf("the pod is not restricted: %+v", p)
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		s := c.SecurityContext
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Privileged != nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || s.Capabilities.Add != nil {
			t.Errorf("%s is not restricted: %+v", c.Name, s)
		}
		known(t, c.Args)
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(p.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s mounts %s, which is not a volume", c.Name, m.Name)
			}
		}
	}
}

// known checks that the program knows a command and its flags.
func known(t *testing.T, args []string) {
	t.Helper()
	bin, err := built()
	must(t, err)
	_ = output(t, bin, append(slices.Clone(args), "--help")...)
}

func TestTheChartRefusesWhatIsUnsafeOrMissing(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"no image":             {"hosts: [a]\ntls: {secret: c}\ndatabase: {secret: d}", "image.repository is required"},
		"no tag":               {"hosts: [a]\ntls: {secret: c}\ndatabase: {secret: d}\nimage: {repository: r}", "image.tag or image.digest is required"},
		"no database":          {"hosts: [a]\ntls: {secret: c}\nimage: {repository: r, tag: t}", "database.secret is required"},
		"no TLS":               {needed, "tokens need TLS"},
		"no host":              {"tls: {secret: c}\ndatabase: {secret: d}\nimage: {repository: r, tag: t}", "hosts is required"},
		"no token for metrics": {needed + "tls: {secret: c}\nmetrics: {serviceMonitor: true}", "metrics.secret is required"},
	} {
		if _, err := render(t, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestSandboxesInPods: only what docs/install.md names is loosened, and nothing without sandboxes.
func TestSandboxesInPods(t *testing.T) {
	m, err := render(t, needed+"tls: {secret: cert}")
	must(t, err)
	s := m.pod().Containers[0].SecurityContext
	if *m.pod().HostUsers || *s.ProcMount != core.UnmaskedProcMount || s.SeccompProfile.Type != core.SeccompProfileTypeUnconfined || s.AppArmorProfile.Type != core.AppArmorProfileTypeUnconfined {
		t.Errorf("sandboxes cannot be made: %+v", s)
	}
	m, err = render(t, needed+"tls: {secret: cert}\nsandbox: {enabled: false}")
	must(t, err)
	s = m.pod().Containers[0].SecurityContext
	if m.pod().HostUsers != nil || s.ProcMount != nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || s.AppArmorProfile != nil {
		t.Errorf("something is loosened: %+v", s)
	}
}

func TestTheComposeFile(t *testing.T) {
	dir, err := filepath.Abs("compose")
	must(t, err)
	data, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	must(t, err)
	load := func(env map[string]string) (*compose.Project, error) {
		return loader.LoadWithContext(context.Background(), compose.ConfigDetails{WorkingDir: dir, Environment: env,
			ConfigFiles: []compose.ConfigFile{{Filename: "compose.yaml", Content: data}}}, func(o *loader.Options) {
			o.SetProjectName("remit", true)
			o.Profiles = []string{"worker"}
		})
	}
	if _, err := load(map[string]string{"REMIT_IMAGE": "remit:1.2.3"}); err == nil || !strings.Contains(err.Error(), "set it in .env") {
		t.Errorf("without a password: %v", err)
	}
	p, err := load(map[string]string{"REMIT_IMAGE": "remit:1.2.3", "REMIT_DB_PASSWORD": "canary"})
	must(t, err)
	for _, name := range []string{"migrate", "node-1", "node-2", "worker"} {
		s, err := p.GetService(name)
		must(t, err)
		known(t, s.Command)
		if !s.ReadOnly || s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.CapAdd != nil || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not restricted: %+v", name, s)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s is published at %q", name, port.HostIP)
			}
		}
	}
	w := p.Services["worker"]
	if _, database := w.Networks["ledger"]; database || len(w.Environment) > 0 || slices.ContainsFunc(w.Volumes, func(v compose.ServiceVolumeConfig) bool { return v.Source == "home" }) {
		t.Errorf("the worker reaches the ledger or its keys: %+v", w)
	}
	if len(p.Services["db"].Ports) > 0 || !p.Networks["ledger"].Internal {
		t.Errorf("the database can be reached from outside")
	}
}
