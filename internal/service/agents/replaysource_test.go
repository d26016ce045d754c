package agents_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/service/apis"
)

const petCapability = `id: pets
name: Pets
description: Looks pets up.
version: 1
tools:
  - {tool: "api:pets:getPet", name: get_pet}
  - {tool: "api:pets:putPet", name: put_pet}
`

const petDocument = `openapi: 3.1.0
info: {title: Pets, version: "1"}
paths:
  /pets/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string,   minLength: 1}}]
    get: {operationId: getPet, summary: One pet}
    put: {operationId: putPet, summary: Another pet}
`

// What a session's model was told of tools that a source brought, and what its calls
// of them needed, is in its record: it is replayed and judged without the source.
func TestASessionIsReplayedWithoutTheSourceOfItsTools(t *testing.T) {
	pets := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"tom"}`))
	}))
	defer pets.Close()
	rules := "version: 1\nname: pets\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['scripted:*']}\ntools: {allow: ['*'], deny: ['api:pets:put*']}\nnetwork: {allow: ['" + pets.URL + "/**']}\n"
	p := newPlace(t, rules, "- tool_calls: [{name: get_pet, args: {id: tom}}, {name: get_pet, args: {id: ''}}, {name: put_pet, args: {id: tom}}]\n- text: it is tom\n")
	folder := filepath.Join(p.homeDir, "capabilities")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "pets.yaml"), []byte(petCapability), 0o600); err != nil {
		t.Fatal(err)
	}
	document := p.write("pets.openapi.yaml", petDocument)
	add := func() {
		t.Helper()
		if _, err := p.app.APIs.Add(context.Background(), apis.Addition{Name: "pets", From: document, Base: pets.URL, Replace: true}); err != nil {
			t.Fatal(err)
		}
		p.again()
	}
	add()
	s := p.session(tester, p.agent(agent.Agent{Name: "Keeper", Capabilities: []agent.CapabilityRef{{Ref: "pets"}}}))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "who is it?", nil)
	if err != nil || turn.Reply != "it is tom" {
		t.Fatalf("%+v %v", turn, err)
	}
	strict, err := policy.Parse("strict.yaml", []byte("version: 1\nname: strict\nfiles: {read: {allow: ['answers.yaml']}}\nmodels: {allow: ['scripted:*']}\ntools: {allow: ['model.chat']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name   string
		change func()
	}{
		{"there", func() {}},
		{"described otherwise", func() {
			p.write("pets.openapi.yaml", petDocument[:len(petDocument)-len("Another pet}\n")]+"Whichever pet}\n")
			add()
		}},
		{"gone", func() {
			if err := p.app.APIs.Remove("pets"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		k.change()
		p.again()
		res, err := p.app.Replays.Session(t.Context(), s.ID.String(), nil)
		if err != nil || res.Difference != nil || res.Mismatch() != nil || res.Messages != 6 {
			t.Errorf("%s: %+v, %v, %v, %v", k.name, res, res.Mismatch(), res.Difference, err)
		}
		changed, judged, err := p.app.Replays.RejudgeSession(t.Context(), s.ID.String(), strict)
		if err != nil || judged != 5 || len(changed) != 1 || changed[0].Tool != "api:pets:getPet" || changed[0].Call != 2 {
			t.Errorf("%s: judged %d, %+v, %v", k.name, judged, changed, err)
		}
	}
}
