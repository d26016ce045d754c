package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

const flowPolicy = `labels:
  web: {from: ["network *", "tools mcp:*"], but: ["tools mcp:contacts:*"]}
  private: {from: ["files private/**", "secrets crm"], kind: confidential}
flows:
  web: {ask: ["commands git push **", "network POST,PUT,DELETE **", "side_effects fs.delete"]}
  private: {only: ["network api.acme.com", "files private/**"]}
`

func TestLabelsAndFlowsAreRead(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("version: 1\n"+flowPolicy))
	if err != nil {
		t.Fatal(err)
	}
	labels, flows := p.Labels(), p.Flows()
	if len(labels) != 2 || labels[0].Name != "web" || labels[0].Confidential || len(labels[0].From) != 2 || labels[0].But[0].String() != "tools mcp:contacts:*" {
		t.Errorf("labels: %+v", labels)
	}
	if !labels[1].Confidential || labels[1].From[1].Section != "secrets" || labels[1].From[1].Pattern != "crm" || labels[1].Line != 4 {
		t.Errorf("private: %+v", labels[1])
	}
	if len(flows) != 2 || len(flows[0].Ask) != 3 || flows[0].Limits() || !flows[1].Limits() || flows[1].Only[0].String() != "network api.acme.com" {
		t.Errorf("flows: %+v", flows)
	}
	again, err := policy.Parse("p.yaml", p.Print())
	if err != nil || string(again.Print()) != string(p.Print()) {
		t.Errorf("what is printed is not what was read (%v):\n%s", err, p.Print())
	}
}

func TestLabelsOfWorkersAndOfData(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("version: 1\nwhere: remote\nworker_labels: [gpu]\n"+flowPolicy))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := policy.Parse("p.yaml", p.Print()); err != nil || len(again.Labels()) != 2 || !strings.Contains(string(p.Print()), `worker_labels: ["gpu"]`) {
		t.Errorf("%v\n%s", err, p.Print())
	}
	if got := chainOfSources(t, "where: remote\nworker_labels: [gpu]\n"+flowPolicy).Placement().Labels; len(got) != 1 || got[0] != "gpu" {
		t.Errorf("labels of the worker: %v", got)
	}
}

func TestLabelsThatAreRefused(t *testing.T) {
	for src, want := range map[string]string{
		"labels: {Web: {from: ['network *']}}":                                                                     "not a valid label",
		"labels: {web: {}}":                                                                                        "has no sources",
		"labels: {web: {from: ['network *'], kind: secret}}":                                                       "labels.web.kind",
		"labels: {web: {from: ['net *']}}":                                                                         "labels.web.from[0]",
		"labels: {web: {from: ['network']}}":                                                                       "is not a valid entry",
		"labels: {web: {from: ['side_effects fs.*']}}":                                                             "is not a valid entry",
		"labels: {web: {from: ['tools a b']}}":                                                                     "not a valid tool pattern",
		"labels: {web: {from: ['secrets A/b']}}":                                                                   "not a valid name",
		"flows: {web: {ask: ['network *']}}":                                                                       `the policy has no label "web"`,
		"labels: {web: {from: ['network *']}}\nflows: {wbe: {ask: ['network *']}}":                                 `did you mean "web"?`,
		"labels: {web: {from: ['network *']}}\nflows: {web: {}}":                                                   "has no consequence",
		"labels: {web: {from: ['network *']}}\nflows: {web: {only: []}}":                                           "only is for confidential labels",
		"labels: {web: {from: ['network *'], kind: confidential}}\nflows: {web: {ask: ['network *']}}":             "ask is for untrusted labels",
		"labels: {p: {from: ['files p/**'], but: ['files p/README'], kind: confidential}}\nflows: {p: {only: []}}": "but cannot except",
		"flows: {untrusted: {only: []}}":                                                                           "only is for confidential labels",
		"flows: {untrusted: {ask: ['side_effects fs.x']}}":                                                         "is not a side effect",
		"labels: {web: {from: ['network *']}}\nwhere: remote\nworker_labels: [GPU]":                                "not a valid label",
		"worker_labels: [gpu]":                                                                                     "worker_labels is for where: remote",
		"rest: inherit\nflows: {private: {only: ['secrets x']}}":                                                   "is not a valid entry",
		"rest: inherit\nflows: {private: {only: ['files ../x']}}":                                                  "flows.private.only[0]",
	} {
		_, err := policy.Parse("p.yaml", []byte("version: 1\n"+src+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "p.yaml:") {
			t.Errorf("%s\n\tgot %v, want %q", src, err, want)
		}
	}
}
