package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
)

// MarshalJSON gives the profile for machines: the same as [Profile.String].
func (p Profile) MarshalJSON() ([]byte, error) {
	type mount struct {
		Path   string `json:"path"`
		Access string `json:"access"` // none, read, write, read+write
		Kind   string `json:"kind"`   // bind, mask, empty, socket
		Folder bool   `json:"folder"`
		Link   bool   `json:"link,omitempty"`
		System bool   `json:"system"`
		Keeps  bool   `json:"keeps,omitempty"` // nothing in it can be removed, but in the folders of removable
	}
	mounts := make([]mount, len(p.Mounts))
	for i, m := range p.Mounts {
		kind := [...]string{Bind: "bind", Mask: "mask", Hollow: "empty", Socket: "socket"}[m.Kind]
		mounts[i] = mount{m.Path, m.Access.String(), kind, m.Folder, m.Link, m.System, m.Keeps}
	}
	system, network := "minimal", "none"
	if p.Standard {
		system = "standard"
	}
	if p.Connects {
		network = "proxy"
	}
	tier := "fresh"
	if p.Session {
		tier = "session"
	}
	return json.Marshal(struct {
		Mounts    []mount        `json:"mounts"`
		Removable []string       `json:"removable,omitempty"`
		Folder    string         `json:"folder"`
		System    string         `json:"system"`
		Network   string         `json:"network"`
		Isolation string         `json:"isolation"` // full, landlock, seatbelt, none
		Tier      string         `json:"tier"`      // fresh, session
		Image     string         `json:"image,omitempty"`
		Publish   []string       `json:"publish,omitempty"` // ports of this machine, as 8080:80
		Env       []string       `json:"env"`
		Path      []string       `json:"path"`
		Limits    map[string]any `json:"limits"`
		Notes     []string       `json:"notes"`
	}{mounts, p.Removable, p.Dir, system, network, p.Confinement(), tier, p.Image, p.published(), orNone(p.Env), orNone(p.Path), map[string]any{
		"memory": p.Memory, "memory_together": p.Together, "disk": p.Disk, "processes": p.Processes, "file_size": p.FileSize,
		"cpu_ms": p.CPU.Milliseconds(), "open_files": p.OpenFiles,
	}, orNone(p.Notes)})
}

// published are the ports of this machine that are the command's.
func (p Profile) published() []string {
	var out []string
	for _, port := range p.Publish {
		out = append(out, port.String())
	}
	return out
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// String prints the profile, a line for each thing that it allows.
func (p Profile) String() string {
	var b strings.Builder
	for _, m := range p.Mounts {
		if p.Image != "" && m.System { // the line about the image stands for them
			continue
		}
		what := m.Access.String()
		if m.Keeps {
			what += " keep"
		}
		switch m.Kind {
		case Mask:
			what = "masked"
		case Hollow:
			what = "emptied"
		case Socket:
			what = "socket"
		}
		fmt.Fprintf(&b, "%-10s %q\n", what, m.Path)
	}
	for _, dir := range p.Removable {
		fmt.Fprintf(&b, "%-10s %q\n", "delete", dir)
	}
	network := "none"
	switch {
	case p.Proxy && !p.Connects:
		network = "none; a proxy refuses connections and records them"
	case p.Proxy:
		network = "through the proxy, by the policy's rules"
	}
	system := "minimal"
	if p.Standard {
		system = "standard"
	}
	tier := "fresh"
	if p.Session {
		tier = "session"
	}
	if p.Image != "" {
		system = "image " + p.Image
	}
	fmt.Fprintf(&b, "isolation  %s\ntier       %s\nsystem     %s\n", p.Confinement(), tier, system)
	if list := p.published(); list != nil {
		fmt.Fprintf(&b, "publish    %s\n", strings.Join(list, " "))
	}
	fmt.Fprintf(&b, "folder     %q\nnetwork    %s\nenv        %s\npath       %s\n", p.Dir, network, strings.Join(p.Env, " "), strings.Join(p.Path, ":"))
	fmt.Fprintf(&b, "memory     %d bytes a process\ndisk       %d bytes in /tmp\nprocesses  %d\nfile size  %d bytes\nopen files %d a process\n",
		p.Memory, p.Disk, p.Processes, p.FileSize, p.OpenFiles)
	if p.Together > 0 {
		fmt.Fprintf(&b, "together   %d bytes of all processes and of what is in memory for them, where a control group counts it\n", p.Together)
	}
	if p.CPU > 0 {
		fmt.Fprintf(&b, "cpu        %s a process\n", p.CPU)
	}
	for _, n := range append([]string{"the system's programs and libraries are readable whatever files.read says"}, p.Notes...) {
		fmt.Fprintf(&b, "note       %s\n", n)
	}
	return b.String()
}
