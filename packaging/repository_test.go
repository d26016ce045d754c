package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// hosted is a file of .github, with the fields that the tests look at. All others are free.
type hosted struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Body        []struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Attributes struct {
			Label string `json:"label"`
			Value string `json:"value"`
		} `json:"attributes"`
		Validations struct {
			Required bool `json:"required"`
		} `json:"validations"`
	} `json:"body"`
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Steps       []struct {
			Uses string         `json:"uses"`
			Run  string         `json:"run"`
			With map[string]any `json:"with"`
		} `json:"steps"`
	} `json:"jobs"`
	Updates []struct {
		Ecosystem   string   `json:"package-ecosystem"`
		Directory   string   `json:"directory"`
		Directories []string `json:"directories"`
	} `json:"updates"`
}

// hostedFile reads a file of .github. A key that is there twice is an error.
func hostedFile(t *testing.T, path string) (hosted, string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	plain, err := yaml.YAMLToJSONStrict(data)
	must(t, err)
	var h hosted
	if err := yaml.Unmarshal(plain, &h); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return h, string(data)
}

// A workflow may read the repository, and only the job that attests may do more. Actions have a version.
func TestWorkflows(t *testing.T) {
	version := regexp.MustCompile(`^[a-z-]+/[a-z-]+@(v\d+(\.\d+)*|[0-9a-f]{40})$`)
	for name, want := range map[string]string{"check": ".ci/run", "release": "make packages"} {
		h, text := hostedFile(t, filepath.Join("..", ".github", "workflows", name+".yml"))
		if h.Permissions["contents"] != "read" || len(h.Permissions) != 1 || !strings.Contains(text, want) || len(h.Jobs) != 1 || !strings.Contains(text, "\non:\n") {
			t.Errorf("%s: permissions %v, %d jobs, or no %q", name, h.Permissions, len(h.Jobs), want)
		}
		for _, job := range h.Jobs {
			attests := false
			for _, step := range job.Steps {
				attests = attests || strings.HasPrefix(step.Uses, "actions/attest")
				if (step.Uses == "") == (step.Run == "") || step.Uses != "" && !version.MatchString(step.Uses) || strings.Contains(step.Run, "${{") {
					t.Errorf("%s: step %+v", name, step)
				}
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s: the checkout keeps its credentials", name)
				}
			}
			if want := map[bool]string{true: "write"}[attests]; job.Permissions["attestations"] != want || job.Permissions["id-token"] != want || job.Permissions["contents"] == "write" {
				t.Errorf("%s: attests %v with permissions %v", name, attests, job.Permissions)
			}
		}
	}
}

// Each form asks for what remit doctor tells about the machine.
func TestIssueForms(t *testing.T) {
	for _, name := range []string{"bug", "refused"} {
		h, _ := hostedFile(t, filepath.Join("..", ".github", "ISSUE_TEMPLATE", name+".yml"))
		asked := false
		for _, part := range h.Body {
			if (part.Type == "markdown") == (part.ID != "") || part.Attributes.Label+part.Attributes.Value == "" {
				t.Errorf("%s: %+v", name, part)
			}
			asked = asked || strings.Contains(part.Attributes.Label, "remit doctor --json") && part.Validations.Required
		}
		if h.Name == "" || h.Description == "" || !asked {
			t.Errorf("%s asks for no remit doctor --json, or has no name: %+v", name, h)
		}
	}
	hostedFile(t, "../.github/ISSUE_TEMPLATE/config.yml")
}

// Updates are looked for in each module, and in folders that have a manifest.
func TestDependencyUpdates(t *testing.T) {
	h, _ := hostedFile(t, "../.github/dependabot.yml")
	files := map[string]string{"gomod": "go.mod", "npm": "package.json", "github-actions": ".github/workflows/check.yml"}
	listed := map[string]bool{}
	for _, u := range h.Updates {
		for _, dir := range append(u.Directories, u.Directory) {
			if dir == "" {
				continue
			}
			at := filepath.Join("..", dir, files[u.Ecosystem])
			if _, err := os.Stat(at); err != nil || files[u.Ecosystem] == "" {
				t.Errorf("%s in %s: %v", u.Ecosystem, dir, err)
			}
			listed[at] = true
		}
	}
	for _, at := range strings.Fields(output(t, "git", "-C", "..", "ls-files", "go.mod", "*/go.mod")) {
		if !listed[filepath.Join("..", at)] && !strings.Contains(at, "testdata/") && !strings.HasPrefix(at, "examples/") {
			t.Errorf("no updates are looked for in %s", at)
		}
	}
}
