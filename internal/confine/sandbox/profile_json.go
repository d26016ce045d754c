package sandbox

import "encoding/json"

// MarshalJSON gives the profile for machines: the same as [Profile.String].
func (p Profile) MarshalJSON() ([]byte, error) {
	type mount struct {
		Path   string `json:"path"`
		Access string `json:"access"` // none, read, write, read+write
		Kind   string `json:"kind"`   // bind, mask, empty, socket
		Folder bool   `json:"folder"`
		Link   bool   `json:"link,omitempty"`
		System bool   `json:"system"`
		Keeps  bool   `json:"keeps,omitempty"` // nothing in it can be removed, but what is in removable
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
		Isolation string         `json:"isolation"` // full, landlock, none
		Tier      string         `json:"tier"`      // fresh, session
		Env       []string       `json:"env"`
		Path      []string       `json:"path"`
		Limits    map[string]any `json:"limits"`
		Notes     []string       `json:"notes"`
	}{mounts, p.Removable, p.Dir, system, network, p.Isolation.String(), tier, orNone(p.Env), orNone(p.Path), map[string]any{
		"memory": p.Memory, "memory_together": p.Together, "disk": p.Disk, "processes": p.Processes, "file_size": p.FileSize,
		"cpu_ms": p.CPU.Milliseconds(), "open_files": p.OpenFiles,
	}, orNone(p.Notes)})
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
