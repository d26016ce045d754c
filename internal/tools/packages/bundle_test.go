package packages_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/tools/packages"
)

const manifestHead = `{"manifest_version": "0.3", "name": "files", "version": "1.2.0", "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": `

func TestReadManifest(t *testing.T) {
	node := func(config, settings string) string {
		return manifestHead + config + `}, "user_config": {` + settings + `}}`
	}
	plain := `{"command": "node", "args": ["${__dirname}/server/index.js"]}`
	for name, tt := range map[string]struct {
		src     string
		given   map[string]string
		command string // words, joined by |
		env     map[string]string
		inputs  string
		refused string
	}{
		"plain": {src: node(plain, ""), command: "node|/p/server/index.js"},
		"settings": {
			src: node(`{"command": "node", "args": ["${__dirname}/a.js", "${user_config.dirs}", "--n=${user_config.n}", "${user_config.left}"], "env": {"KEY": "${user_config.key}", "OFF": "${user_config.left}"}}`,
				`"dirs": {"type": "directory", "multiple": true, "required": true, "default": ["/a", "/b"]}, "n": {"type": "number", "default": 5}, "key": {"type": "string", "sensitive": true, "required": true, "title": "Key"}, "left": {"type": "string"}`),
			command: "node|/p/a.js|${input:dirs}|--n=${input:n}", env: map[string]string{"KEY": "${input:key}"}, inputs: "dirs=/a:/b n=5 key!",
		},
		"a setting that is given": {
			src:   node(`{"command": "node", "args": ["a.js", "${user_config.left}"]}`, `"left": {"type": "string"}`),
			given: map[string]string{"left": "x"}, command: "node|a.js|${input:left}", inputs: "left=",
		},
		"a default of some machine": {
			src:     node(`{"command": "node", "args": ["a.js", "${user_config.dir}"]}`, `"dir": {"type": "directory", "required": true, "default": "${HOME}/Desktop"}`),
			command: "node|a.js|${input:dir}", inputs: "dir=",
		},
		"an override": {
			src:     node(`{"command": "node", "args": ["a.js"], "env": {"A": "1", "B": "1"}, "platform_overrides": {"linux": {"args": ["b.js"], "env": {"B": "2"}}}}`, ""),
			command: "node|b.js", env: map[string]string{"A": "1", "B": "2"},
		},
		"another platform's override": {src: node(`{"command": "node", "args": ["a.js"], "platform_overrides": {"darwin": {"args": ["b.js"]}}}`, ""), command: "node|a.js"},
		"libraries of Python": {
			src:     strings.Replace(node(`{"command": "python", "args": ["${__dirname}/main.py", "x"], "env": {"PYTHONPATH": "${__dirname}/lib"}}`, ""), `"node"`, `"python"`, 1),
			command: "python3|-c|CODE|/p/lib|/p/main.py|x",
		},
		"libraries elsewhere": {
			src:     strings.Replace(node(`{"command": "python", "args": ["${__dirname}/main.py"], "env": {"PYTHONPATH": "${__dirname}/../lib"}}`, ""), `"node"`, `"python"`, 1),
			refused: "not in the bundle",
		},
		"its own program":   {src: strings.Replace(node(`{"command": "${__dirname}/server/run"}`, ""), `"node"`, `"binary"`, 1), command: "/p/server/run"},
		"a program above":   {src: strings.Replace(node(`{"command": "${__dirname}/../run"}`, ""), `"node"`, `"binary"`, 1), refused: "not a file of the bundle"},
		"a shell":           {src: node(`{"command": "sh", "args": ["-c", "x"]}`, ""), refused: `command "sh"`},
		"a type of uv":      {src: strings.Replace(node(plain, ""), `"node"`, `"uv"`, 1), refused: "uvx"},
		"an entry above":    {src: strings.Replace(node(plain, ""), "server/index.js", "../x", 1), refused: "entry_point"},
		"no name":           {src: strings.Replace(node(plain, ""), `"files"`, `"../x"`, 1), refused: "valid name"},
		"no version":        {src: strings.Replace(node(plain, ""), `"1.2.0"`, `""`, 1), refused: "valid name"},
		"an unknown place":  {src: node(`{"command": "node", "args": ["${HOME}/x"]}`, ""), refused: "not known"},
		"no such setting":   {src: node(`{"command": "node", "args": ["${user_config.x}"]}`, ""), refused: "not described"},
		"several in a word": {src: node(`{"command": "node", "args": ["-d${user_config.x}"]}`, `"x": {"type": "string", "multiple": true}`), refused: "several values"},
		"not JSON":          {src: "x", refused: "manifest.json"},
		"ambiguous":         {src: `{"name": "a", "name": "b"}`, refused: "manifest.json"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := packages.ReadManifest([]byte(tt.src), "/p", "linux", tt.given)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, want %q", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			words := m.Recipe.Command
			if len(words) > 2 && words[1] == "-c" && strings.Contains(words[2], "runpy") {
				words[2] = "CODE"
			}
			var inputs []string
			for _, in := range m.Recipe.Inputs {
				if in.Secret {
					inputs = append(inputs, in.ID+"!")
					continue
				}
				inputs = append(inputs, in.ID+"="+in.Default)
			}
			if tt.env == nil {
				tt.env = map[string]string{}
			}
			if diff := cmp.Diff(tt.env, m.Recipe.Env); strings.Join(words, "|") != tt.command || strings.Join(inputs, " ") != tt.inputs || diff != "" {
				t.Errorf("%q, inputs %q, variables %s", words, inputs, diff)
			}
		})
	}
}
