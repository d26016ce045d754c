package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

func TestCommandsRunOnlyWhereEveryLinkAllows(t *testing.T) {
	const inherit = "rest: inherit\n"
	local, container, remote := policy.Local, policy.Container, policy.Remote
	tests := map[string]struct {
		links []string
		want  []policy.Place
	}{
		"nothing said":                 {[]string{""}, []policy.Place{local}},
		"one place":                    {[]string{"where: remote\n"}, []policy.Place{remote}},
		"several, in order":            {[]string{"where: [remote, local]\n"}, []policy.Place{remote, local}},
		"the next inherits":            {[]string{"where: remote\n", inherit}, []policy.Place{remote}},
		"the next narrows":             {[]string{"where: [remote, local, container]\n", "where: [container, local]\n"}, []policy.Place{local, container}},
		"the next says nothing":        {[]string{"where: [remote, local]\n", ""}, []policy.Place{local}},
		"the next moves it":            {[]string{"where: local\n", "where: remote\n"}, nil},
		"the next moves it, inherits":  {[]string{"", "where: container\n" + inherit}, nil},
		"a third cannot bring it back": {[]string{"where: local\n", "where: remote\n", "where: local\n"}, nil},
		"the first says nothing":       {[]string{"", "where: [remote, local]\n"}, []policy.Place{local}},
		"nobody says, all inherit":     {[]string{inherit}, []policy.Place{local}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := chainOfSources(t, tc.links...).Placement()
			if !slices.Equal(got.Places, tc.want) {
				t.Errorf("got %v, want %v", got.Places, tc.want)
			}
			for _, at := range []policy.Place{local, container, remote} {
				if got.Allows(at) != slices.Contains(tc.want, at) {
					t.Errorf("Allows(%v) is %v", at, got.Allows(at))
				}
			}
		})
	}
	if got := (policy.Chain{nil}).Placement(); len(got.Places) != 0 {
		t.Errorf("a chain without its policy may run commands: %v", got.Places)
	}
	if (policy.Placement{}).Allows(local) {
		t.Error("the zero Placement allows local")
	}
}

func TestARefusalNamesThePoliciesThatDisagree(t *testing.T) {
	err := chainOfSources(t, "where: local\n", "where: [remote, container]\n").Placement().Refusal(policy.Local)
	for _, want := range []string{"where: local", "where: remote or container"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	err = chainOfSources(t, "where: remote\n").Placement().Refusal(policy.Local)
	if !strings.Contains(err.Error(), "where is remote") {
		t.Errorf("got %v", err)
	}
}

func TestLinksAgreeOnTheImage(t *testing.T) {
	const a, b = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	tests := map[string]struct {
		links   []string
		image   string // that commands see
		orLocal bool
		refused bool
	}{
		"one":                     {[]string{"where: container\nimage: " + a + "\n"}, a, false, false},
		"the next names it":       {[]string{"where: container\n", "where: container\nimage: " + a + "\n"}, a, false, false},
		"the next keeps it":       {[]string{"where: [container, local]\nimage: " + a + "\n", "rest: inherit\n"}, a, true, false},
		"the same":                {[]string{"where: container\nimage: " + a + "\n", "where: container\nimage: " + a + "\n"}, a, false, false},
		"another":                 {[]string{"where: container\nimage: " + a + "\n", "where: container\nimage: " + b + "\n"}, "", false, true},
		"another, inherited":      {[]string{"where: [container, local]\nimage: " + a + "\n", "image: " + b + "\nrest: inherit\n"}, "", false, true},
		"narrowed to local":       {[]string{"where: [container, local]\nimage: " + a + "\n", ""}, "", false, false},
		"this machine is first":   {[]string{"where: [local, container]\nimage: " + a + "\n"}, "", false, false},
		"a worker, then an image": {[]string{"where: [remote, container]\nimage: " + a + "\n"}, a, false, false},
		"not named":               {[]string{"where: container\n"}, "", false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			chain := chainOfSources(t, tc.links...)
			l := chain.Limits()
			if refused := len(chain.Placement().Places) == 0; l.Image != tc.image || l.ImageOrLocal != tc.orLocal || refused != tc.refused {
				t.Errorf("image %q, or local %v, refused %v", l.Image, l.ImageOrLocal, refused)
			}
		})
	}
	for _, bad := range []string{"where: container\nimage: python:3.12", "where: container\nimage: sha256:AA", "where: local\nimage: " + a, "image: " + a, "where: remote\nimage: " + a} {
		if _, err := policy.Parse("test.yaml", []byte("version: 1\n"+bad+"\n")); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestLabelsAddUp(t *testing.T) {
	chain := chainOfSources(t, "where: remote\nlabels: [gpu, eu]\n", "labels: [eu, big]\nrest: inherit\n")
	if got := chain.Placement(); !slices.Equal(got.Labels, []string{"big", "eu", "gpu"}) || !got.Allows(policy.Remote) {
		t.Errorf("got %v", got)
	}
}

func TestPlacesArePrintedAndChecked(t *testing.T) {
	for _, src := range []string{"where: remote\nlabels: [\"gpu\", \"eu\"]\n", "where: [container, local]\nimage: sha256:" + strings.Repeat("a", 64) + "\n", "where: local\n"} {
		src = "version: 1\nname: \"test\"\n" + src
		p, err := policy.Parse("test.yaml", []byte(src))
		if err != nil || string(p.Print()) != src {
			t.Errorf("got %q, %v; want %q", p.Print(), err, src)
		}
	}
	for _, bad := range []string{"where: cloud", "where: []", "where: [local, local]", "where: [remote, local, container, local]", "where: {at: remote}",
		"where: 1", "where: remote\nlabels: gpu", "where: remote\nlabels: [GPU]", "where: remote\nlabels: [\"\"]", "where: remote\nlabels: [-x]", "where: local\nlabels: [gpu]", "labels: [gpu]",
		"roles: {\"agent:*\": {where: local, labels: [gpu]}}", "where: remote\nlabels: [" + strings.Repeat("a,", 17) + "]"} {
		if _, err := policy.Parse("test.yaml", []byte("version: 1\n"+bad+"\n")); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestALearntPolicyKeepsItsPlace(t *testing.T) {
	relist := func(links ...string) (string, error) {
		p, err := chainOfSources(t, links...).Relist("learnt", []byte("version: 1\n"), nil, nil)
		if err != nil {
			return "", err
		}
		return string(p.Print()), nil
	}
	got, err := relist("where: [remote, local]\nlabels: [gpu]\n", "where: remote\nlabels: [eu]\n")
	if err != nil || !strings.HasSuffix(got, "where: remote\nlabels: [\"eu\", \"gpu\"]\n") {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err = relist("where: [remote, local]\nlabels: [gpu]\n", ""); err != nil || strings.Contains(got, "where") || strings.Contains(got, "labels") {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err = relist("where: remote\n", "where: local\n"); err == nil {
		t.Error("policies that disagree were written as one")
	}
}

func TestRunsThatMayBeRemoteAreHeld(t *testing.T) {
	for where, want := range map[string]bool{"": false, "where: local\n": false, "where: container\n": false, "where: remote\n": true, "where: [local, remote]\n": true} {
		if got := chainOfSources(t, where, "rest: inherit\n").Limits().Hold; got != want {
			t.Errorf("%q: held is %v, want %v", where, got, want)
		}
	}
}
